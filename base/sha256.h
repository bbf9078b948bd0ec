// SHA-256 of bytes (FIPS 180-4), by OpenSSL's libcrypto.
#ifndef TIDELINE_BASE_SHA256_H_
#define TIDELINE_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tideline {

// Incremental hash. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  // The digest of everything since construction, as bytes or 64 lower-case hexadecimal digits. The
  // object must not be used again.
  std::array<uint8_t, 32> Digest();
  std::string HexDigest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The digest of one text in hexadecimal.
std::string Sha256Hex(std::string_view bytes);

}  // namespace tideline

#endif  // TIDELINE_BASE_SHA256_H_
