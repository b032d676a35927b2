/* Calls of the C library that the sample has none of: errors, clones in threads, other types. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "paddle_ipu_inference.h"

enum { THREADS = 4, RUNS = 20 };

static int failures = 0;

static void expect(int ok, const char* what) {
  if (!ok) {
    ++failures;
    printf("not as expected: %s; last error: %s\n", what, PI_LastError());
  }
}

static void expect_error(int ok, const char* part) {
  expect(ok && strstr(PI_LastError(), part) != NULL, part);
}

static int run_rows(PI_Predictor* predictor, float value, float* out) {
  const int64_t shape[] = {4, 3}, column[] = {4, 1}, shift[] = {1, 2, 3, 4};
  float data[12];
  for (int i = 0; i < 12; ++i) data[i] = value;
  PI_Tensor* x = PI_PredictorInput(predictor, "x");
  PI_Tensor* s = PI_PredictorInput(predictor, "shift");
  PI_Tensor* y = PI_PredictorOutput(predictor, PI_PredictorOutputName(predictor, 0));
  int bad = PI_TensorCopyFromCpu(x, PI_FLOAT32, data, shape, 2) ||
            PI_TensorCopyFromCpu(s, PI_INT64, shift, column, 2) || PI_PredictorRun(predictor) ||
            PI_TensorCopyToCpu(y, out, 16 * sizeof(float));
  PI_TensorDestroy(x);
  PI_TensorDestroy(s);
  PI_TensorDestroy(y);
  return bad;
}

typedef struct {
  PI_Predictor* predictor;
  float value;
  float out[16];
  int bad;
} Work;

static void* work(void* given) {
  Work* own = given;
  for (int i = 0; i < RUNS; ++i) own->bad |= run_rows(own->predictor, own->value, own->out);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  expect_error(PI_ConfigCreate(NULL, NULL) == NULL, "program is NULL");
  expect_error(PI_PredictorRun(NULL) != 0, "predictor is NULL");
  PI_ConfigDestroy(NULL);
  PI_PredictorDestroy(NULL);
  PI_TensorDestroy(NULL);

  PI_Config* missing = PI_ConfigCreate("no/such/model", NULL);
  expect(missing != NULL, "a config");
  if (missing == NULL) return 1;
  expect(PI_ConfigEnableIpu(missing, 1, 1, 0, 1) == 0, "enable_ipu");
  expect_error(PI_PredictorCreate(missing) == NULL, "ModelFileError");
  PI_ConfigDestroy(missing);

  PI_Config* config = PI_ConfigCreate(argv[1], NULL);
  expect_error(PI_ConfigEnableIpu(config, 0, 4, 0, 1) != 0, "ipu_device_num got 0");
  expect(PI_ConfigEnableIpu(config, 1, 4, 0, 1) == 0, "enable_ipu");
  expect(PI_ConfigSetIpuConfig(config, 0, 1, 0.5f, 0) == 0, "set_ipu_config");
  expect_error(PI_ConfigLoadIpuConfig(config, "no/such/file") != 0, "cannot be read");
  PI_Predictor* predictor = PI_PredictorCreate(config);
  expect(predictor != NULL, "create");
  PI_ConfigDestroy(config);
  if (predictor == NULL) return 1;

  expect(PI_PredictorInputNum(predictor) == 2 && PI_PredictorOutputNum(predictor) == 2, "numbers");
  expect(strcmp(PI_PredictorInputName(predictor, 1), "shift") == 0, "name");
  expect_error(PI_PredictorInputName(predictor, 2) == NULL, "IndexError");
  expect_error(PI_PredictorInput(predictor, "y") == NULL, "no input 'y'");
  expect_error(PI_PredictorRun(predictor) != 0, "have no data");

  float out[16];
  expect(run_rows(predictor, 0.0f, out) == 0, "run");
  PI_Tensor* y = PI_PredictorOutput(predictor, PI_PredictorOutputName(predictor, 0));
  int64_t dims[1];
  size_t rank = 0;
  PI_DataType type = PI_BOOL;
  expect(PI_TensorShape(y, dims, 1, &rank) == 0 && rank == 2 && dims[0] == 4, "shape");
  expect(PI_TensorType(y, &type) == 0 && type == PI_FLOAT32, "type");
  expect_error(PI_TensorCopyToCpu(y, out, 4) != 0, "the tensor has 64 bytes");
  expect_error(PI_TensorCopyFromCpu(y, PI_FLOAT32, out, dims, 1) != 0, "is an output");
  PI_TensorDestroy(y);
  PI_Tensor* x = PI_PredictorInput(predictor, "x");
  const int64_t negative[] = {-4, 3};
  expect_error(PI_TensorCopyFromCpu(x, PI_FLOAT32, out, negative, 2) != 0, "negative dimension");
  expect_error(PI_TensorCopyFromCpu(x, (PI_DataType)99, out, dims, 1) != 0, "99 is no PI_DataType");
  PI_TensorDestroy(x);

  pthread_t threads[THREADS];
  Work works[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    works[i] = (Work){PI_PredictorClone(predictor), (float)i, {0}, 0};
    expect(pthread_create(&threads[i], NULL, work, &works[i]) == 0, "thread");
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    float again[16];
    expect(!works[i].bad && run_rows(predictor, (float)i, again) == 0, "a thread's runs");
    expect(memcmp(again, works[i].out, sizeof again) == 0, "a thread's results");
    PI_PredictorDestroy(works[i].predictor);
  }
  PI_PredictorDestroy(predictor);
  printf("%d failures\n", failures);
  return failures != 0;
}
