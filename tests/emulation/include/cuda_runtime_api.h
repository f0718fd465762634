// Stands in for CUDA's header of this name: one GPU, which does at once what it is told.
#pragma once

#include <cstddef>

#include "vector_types.h"

using cudaStream_t = struct EmulatedStream*;

enum cudaError_t { cudaSuccess };
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

struct cudaDeviceProp {
  size_t totalGlobalMem = 0;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  return cudaSuccess;
}

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  // An H100's.
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 227 * 1024;
  return cudaSuccess;
}

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* /*kernel*/, cudaFuncAttribute /*attribute*/,
                                 int /*value*/) {
  return cudaSuccess;
}
