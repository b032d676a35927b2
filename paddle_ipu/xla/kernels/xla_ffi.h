// What kernels.cc uses of XLA's interface for foreign functions: version 0, a stable binary interface
// of C structs that each begin with their size (xla/ffi/api/c_api.h). Fields behind the last used one are left out.

#pragma once

#include <cstddef>
#include <cstdint>

namespace xla_ffi {

struct Error;
struct Context;

enum Code : int { kInvalidArgument = 3, kInternal = 13 };
enum Stage : int { kExecute = 3 };
enum Kind : int { kArray = 1 };
enum Type : int { kInt64 = 5, kFloat32 = 11 };
constexpr int kMetadata = 1;
constexpr int kMajor = 0;

struct Extension {
  size_t size;
  int kind;
  Extension* next;
};

struct Version {
  size_t size;
  Extension* extensions;
  int major, minor;
};

struct Metadata {
  size_t size;
  Version version;
  uint32_t traits;
  int64_t state;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct ErrorArguments {
  size_t size;
  Extension* extensions;
  const char* message;
  Code code;
};

struct TaskArguments {
  size_t size;
  Extension* extensions;
  Context* context;
  void (*task)(void*);
  void* data;
};

struct ErrorToDestroy {
  size_t size;
  Extension* extensions;
  Error* error;
};

struct Api {
  size_t size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArguments*);
  void* get_message;
  void (*destroy_error)(ErrorToDestroy*);
  void *register_handler, *get_stream, *register_type, *get_context, *set_state, *get_state;
  void *allocate, *free;
  Error* (*schedule)(TaskArguments*);
};

struct Buffer {
  size_t size;
  Extension* extensions;
  Type type;
  void* data;
  int64_t rank;
  int64_t* dims;
};

struct Span {
  const char* begin;
  size_t length;
};

struct Array {
  Type type;
  size_t count;
  void* data;
};

struct Buffers {
  size_t size;
  Extension* extensions;
  int64_t count;
  int* kinds;
  void** items;
};

struct Attributes {
  size_t size;
  Extension* extensions;
  int64_t count;
  Kind* kinds;
  Span** names;
  void** items;
};

struct Call {
  size_t size;
  Extension* extensions;
  const Api* api;
  Context* context;
  Stage stage;
  Buffers arguments, results;
  Attributes attributes;
};

}  // namespace xla_ffi
