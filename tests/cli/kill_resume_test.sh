#!/usr/bin/env bash
# Two kills, worker and parent: the short form of tests/cli/kill_resume.cc.
exec tests/cli/kill_resume 2 1
