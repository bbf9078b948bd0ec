// Marks a function that is compiled for the host and, under nvcc, for the device as well.
#ifndef TIDELINE_BASE_HOST_DEVICE_H_
#define TIDELINE_BASE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define TIDELINE_HOST_DEVICE __host__ __device__
#else
#define TIDELINE_HOST_DEVICE
#endif

#endif  // TIDELINE_BASE_HOST_DEVICE_H_
