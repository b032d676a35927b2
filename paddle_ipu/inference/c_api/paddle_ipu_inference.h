/* Predictors on the IPU for C and C++: paddle.inference with enable_ipu, in a Python of its own.
 *
 * Build the library with `python -m paddle_ipu.inference.c_api.build`. It starts a Python interpreter in
 * the process with the first call, or uses the one that is there. Link with it, or load it with
 * RTLD_GLOBAL: Python's own modules look for Python's symbols among the process's. Functions may be called from any
 * thread; a predictor and its tensors are for one thread at a time, PI_PredictorClone gives another
 * one that shares model and weights.
 *
 * Functions that give a pointer give NULL on failure, others a number that is not 0;
 * PI_LastError() then says what went wrong in this thread. Everything that a function gives out is
 * released by the matching Destroy, which takes NULL too.
 */
#ifndef PADDLE_IPU_INFERENCE_H_
#define PADDLE_IPU_INFERENCE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PI_Config PI_Config;
typedef struct PI_Predictor PI_Predictor;
typedef struct PI_Tensor PI_Tensor;

typedef enum {
  PI_FLOAT32 = 0,
  PI_FLOAT16 = 1,
  PI_FLOAT64 = 2,
  PI_INT32 = 3,
  PI_INT64 = 4,
  PI_INT8 = 5,
  PI_UINT8 = 6,
  PI_BOOL = 7
} PI_DataType;

/* What the last call of this thread that failed said; "" where none has. Valid until the next. */
const char* PI_LastError(void);

/* A config for a model: the program's file and the parameters' file; or, with parameters NULL, the
 * model's folder, or its path without suffix. */
PI_Config* PI_ConfigCreate(const char* program, const char* parameters);
void PI_ConfigDestroy(PI_Config* config);

/* Config.enable_ipu; a config without it gives Paddle's predictor on the CPU. */
int PI_ConfigEnableIpu(PI_Config* config, int device_num, int micro_batch_size,
                       int enable_pipelining, int batches_per_step);
/* Config.set_ipu_config. */
int PI_ConfigSetIpuConfig(PI_Config* config, int enable_fp16, int replica_num,
                          float available_memory_proportion, int enable_half_partial);
/* Config.load_ipu_config. */
int PI_ConfigLoadIpuConfig(PI_Config* config, const char* path);

/* create_predictor; the config may be destroyed afterwards. */
PI_Predictor* PI_PredictorCreate(PI_Config* config);
PI_Predictor* PI_PredictorClone(PI_Predictor* predictor);
void PI_PredictorDestroy(PI_Predictor* predictor);

/* How many inputs and outputs; -1 on failure. */
int PI_PredictorInputNum(PI_Predictor* predictor);
int PI_PredictorOutputNum(PI_Predictor* predictor);
/* Name of an input or output; valid until the predictor is destroyed. */
const char* PI_PredictorInputName(PI_Predictor* predictor, int index);
const char* PI_PredictorOutputName(PI_Predictor* predictor, int index);

PI_Tensor* PI_PredictorInput(PI_Predictor* predictor, const char* name);
PI_Tensor* PI_PredictorOutput(PI_Predictor* predictor, const char* name);
void PI_TensorDestroy(PI_Tensor* tensor);

int PI_PredictorRun(PI_Predictor* predictor);

/* Copies rank-dimensional data, row after row, into an input. */
int PI_TensorCopyFromCpu(PI_Tensor* tensor, PI_DataType type, const void* data,
                         const int64_t* shape, size_t rank);
/* Rank and, as far as `capacity` reaches, dimensions. */
int PI_TensorShape(PI_Tensor* tensor, int64_t* shape, size_t capacity, size_t* rank);
int PI_TensorType(PI_Tensor* tensor, PI_DataType* type);
/* Copies an output's data; `bytes` is the size of `data` and has to be the output's. */
int PI_TensorCopyToCpu(PI_Tensor* tensor, void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* PADDLE_IPU_INFERENCE_H_ */
