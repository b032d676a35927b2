// The functions of oneDNN's C interface (version 3, dnnl.h) that the files beside this one call, looked up by name in
// the library of Paddle's wheel. Of oneDNN's headers that has only dnnl.h and its like, which include others that it lacks.

#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace onednn {

struct VersionNumbers {
  int major, minor, patch;
};

struct Argument {
  int number;
  void* memory;
};

// Values of dnnl_types.h, each with its name there.
constexpr int kCpu = 1;                // dnnl_cpu
constexpr int kInOrder = 1;            // dnnl_stream_in_order
constexpr int kFloat32 = 3;            // dnnl_f32
constexpr int kUndefinedType = 0;      // dnnl_data_type_undef
constexpr int kAnyFormat = 1;          // dnnl_format_tag_any
constexpr int kForwardTraining = 64;   // dnnl_forward_training
constexpr int kForwardInference = 96;  // dnnl_forward_inference
constexpr int kDirect = 1;             // dnnl_convolution_direct
constexpr int kUserScratchpad = 1;     // dnnl_scratchpad_mode_user
constexpr int kRelu = 32;              // dnnl_eltwise_relu
constexpr int kGeluTanh = 43;          // dnnl_eltwise_gelu_tanh
constexpr int kSwish = 44;             // dnnl_eltwise_swish
constexpr int kGeluErf = 49;           // dnnl_eltwise_gelu_erf
constexpr int kHardSwish = 52;         // dnnl_eltwise_hardswish
constexpr int kWeights = 131;          // dnnl_query_weights_md
constexpr int kWeightsGradient = 132;  // dnnl_query_diff_weights_md
constexpr int kScratchpad = 136;       // dnnl_query_scratchpad_md
constexpr int kImplementation = 8;     // dnnl_query_impl_info_str
constexpr int kSource = 1;             // DNNL_ARG_SRC, DNNL_ARG_FROM
constexpr int kResult = 17;            // DNNL_ARG_DST, DNNL_ARG_TO
constexpr int kKernel = 33;            // DNNL_ARG_WEIGHTS
constexpr int kBias = 41;              // DNNL_ARG_BIAS
constexpr int kScratch = 80;           // DNNL_ARG_SCRATCHPAD
constexpr int kOfSource = 129;         // DNNL_ARG_DIFF_SRC
constexpr int kOfResult = 145;         // DNNL_ARG_DIFF_DST
constexpr int kOfKernel = 161;         // DNNL_ARG_DIFF_WEIGHTS

// oneDNN's functions; all give 0 where they succeed.
struct Functions {
  const VersionNumbers* (*version)();
  int (*create_engine)(void**, int kind, size_t index);
  int (*create_stream)(void**, void* engine, unsigned flags);
  int (*destroy_stream)(void*);
  int (*describe_by_strides)(void**, int rank, const int64_t*, int type, const int64_t*);
  int (*describe_by_tag)(void**, int rank, const int64_t*, int type, int tag);
  size_t (*bytes)(const void* description);
  int (*equal)(const void*, const void*);
  int (*create_memory)(void**, const void* description, void* engine, void* data);
  int (*destroy_memory)(void*);
  int (*create_attributes)(void**);
  int (*set_post_operations)(void* attributes, const void*);
  int (*set_scratchpad_mode)(void* attributes, int mode);
  int (*create_post_operations)(void**);
  int (*append_sum)(void*, float scale, int32_t zero, int type);
  int (*append_activation)(void*, int algorithm, float alpha, float beta);
  int (*describe_convolution)(void**, void* engine, int kind, int algorithm, const void* source,
                              const void* kernel, const void* bias, const void* result,
                              const int64_t* strides, const int64_t* dilations,
                              const int64_t* before, const int64_t* after, const void* attributes);
  int (*describe_data_gradient)(void**, void* engine, int algorithm, const void* of_source, const void* kernel,
                                const void* of_result, const int64_t* strides, const int64_t* dilations,
                                const int64_t* before, const int64_t* after, const void* forward,
                                const void* attributes);
  int (*describe_kernel_gradient)(void**, void* engine, int algorithm, const void* source, const void* of_kernel,
                                  const void* of_bias, const void* of_result, const int64_t* strides,
                                  const int64_t* dilations, const int64_t* before, const int64_t* after,
                                  const void* forward, const void* attributes);
  int (*describe_part)(void**, const void* layout, const int64_t* dims, const int64_t* offsets);
  int (*describe_reorder)(void**, const void* from, void* engine, const void* to, void* other,
                          const void* attributes);
  const void* (*query_memory)(const void* primitive_description, int what, int index);
  int (*query)(const void* primitive_description, int what, int index, void* result);
  int (*create)(void**, const void* primitive_description);
  int (*execute)(const void* primitive, void* stream, int count, const Argument*);
  int (*destroy_layout)(void*);
  int (*destroy_attributes)(void*);
  int (*destroy_post_operations)(void*);
  int (*destroy_description)(void*);
  int (*destroy)(void*);

  // Raises std::runtime_error where the library lacks one of them or is of another version.
  explicit Functions(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto find = [&](auto& function, const char* name) {
      void* found = dlsym(library, name);
      if (found == nullptr) throw std::runtime_error(std::string("no ") + name);
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find(version, "dnnl_version");
    if (version()->major != 3) throw std::runtime_error("not version 3");
    find(create_engine, "dnnl_engine_create");
    find(create_stream, "dnnl_stream_create");
    find(destroy_stream, "dnnl_stream_destroy");
    find(describe_by_strides, "dnnl_memory_desc_create_with_strides");
    find(describe_by_tag, "dnnl_memory_desc_create_with_tag");
    find(bytes, "dnnl_memory_desc_get_size");
    find(equal, "dnnl_memory_desc_equal");
    find(create_memory, "dnnl_memory_create");
    find(destroy_memory, "dnnl_memory_destroy");
    find(create_attributes, "dnnl_primitive_attr_create");
    find(set_post_operations, "dnnl_primitive_attr_set_post_ops");
    find(set_scratchpad_mode, "dnnl_primitive_attr_set_scratchpad_mode");
    find(create_post_operations, "dnnl_post_ops_create");
    find(append_sum, "dnnl_post_ops_append_sum");
    find(append_activation, "dnnl_post_ops_append_eltwise");
    find(describe_convolution, "dnnl_convolution_forward_primitive_desc_create");
    find(describe_data_gradient, "dnnl_convolution_backward_data_primitive_desc_create");
    find(describe_kernel_gradient, "dnnl_convolution_backward_weights_primitive_desc_create");
    find(describe_part, "dnnl_memory_desc_create_submemory");
    find(describe_reorder, "dnnl_reorder_primitive_desc_create");
    find(query_memory, "dnnl_primitive_desc_query_md");
    find(query, "dnnl_primitive_desc_query");
    find(create, "dnnl_primitive_create");
    find(execute, "dnnl_primitive_execute");
    find(destroy_layout, "dnnl_memory_desc_destroy");
    find(destroy_attributes, "dnnl_primitive_attr_destroy");
    find(destroy_post_operations, "dnnl_post_ops_destroy");
    find(destroy_description, "dnnl_primitive_desc_destroy");
    find(destroy, "dnnl_primitive_destroy");
    for (void* scope : {static_cast<void*>(RTLD_DEFAULT), library}) {
      const auto get = reinterpret_cast<int (*)()>(dlsym(scope, "omp_get_max_threads"));
      const auto set = reinterpret_cast<void (*)(int)>(dlsym(scope, "omp_set_num_threads"));
      if (get != nullptr && set != nullptr) openmp[found_openmp++] = {get, set};
    }
  }

  // oneDNN may use the process's OpenMP or one of its own; each that exists.
  struct OpenMp {
    int (*get)();
    void (*set)(int);
  };
  OpenMp openmp[2] = {};
  int found_openmp = 0;
};

}  // namespace onednn
