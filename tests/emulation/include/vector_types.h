// Stands in for CUDA's header of this name: the types that our kernels use.
#pragma once

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;

  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
};

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};

inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z,
                            unsigned short w) {
  return {x, y, z, w};
}
