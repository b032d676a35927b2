/* See paddle_ipu_inference.h. What Python does is in paddle_ipu/inference/c_api/bridge.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "paddle_ipu_inference.h"

/* The Python that has Paddle and paddle_ipu; PADDLE_IPU_PYTHON goes before it. */
#ifndef PI_PYTHON
#define PI_PYTHON "python3"
#endif

enum { MESSAGE = 4096 };

static __thread char last_error[MESSAGE];
static pthread_once_t started = PTHREAD_ONCE_INIT;
static PyObject* bridge = NULL;
static char start_error[MESSAGE];

struct PI_Config {
  PyObject* object;
};

struct PI_Predictor {
  PyObject* object;
  PyObject* inputs;
  PyObject* outputs;
};

struct PI_Tensor {
  PyObject* object;
};

const char* PI_LastError(void) { return last_error; }

static void fail(const char* message) {
  strncpy(last_error, message, MESSAGE - 1);
  last_error[MESSAGE - 1] = '\0';
}

/* Takes Python's pending error into `into`. */
static void take_error(char* into) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* text = value == NULL ? NULL : PyObject_Str(value);
  const char* message = text == NULL ? NULL : PyUnicode_AsUTF8(text);
  const char* kind = type == NULL ? "error" : ((PyTypeObject*)type)->tp_name;
  snprintf(into, MESSAGE, "%s: %s", kind, message == NULL ? "no message" : message);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  PyErr_Clear();
}

static int start_python(void) {
  const char* chosen = getenv("PADDLE_IPU_PYTHON");
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  /* The program that embeds this keeps its signals and its arguments. */
  config.install_signal_handlers = 0;
  config.parse_argv = 0;
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name,
                                            chosen != NULL && chosen[0] ? chosen : PI_PYTHON);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    snprintf(start_error, MESSAGE, "Python did not start: %s",
             status.err_msg == NULL ? "no message" : status.err_msg);
    return 0;
  }
  return 1;
}

static void start(void) {
  int own = !Py_IsInitialized();
  PyGILState_STATE state = PyGILState_UNLOCKED;
  if (own) {
    if (!start_python()) return;
  } else {
    state = PyGILState_Ensure();
  }
  bridge = PyImport_ImportModule("paddle_ipu.inference.c_api.bridge");
  if (bridge == NULL) take_error(start_error);
  /* Other threads may enter Python from here on. */
  if (own) {
    PyEval_SaveThread();
  } else {
    PyGILState_Release(state);
  }
}

/* Enters Python; 0 where there is none, with the error set. */
static int enter(PyGILState_STATE* state) {
  pthread_once(&started, start);
  if (bridge == NULL) {
    fail(start_error);
    return 0;
  }
  *state = PyGILState_Ensure();
  return 1;
}

/* Leaves Python with an object or, for NULL, its error. */
static int leave(PyGILState_STATE state, PyObject* result) {
  int ok = result != NULL;
  if (!ok) take_error(last_error);
  Py_XDECREF(result);
  PyGILState_Release(state);
  return ok ? 0 : 1;
}

static void release(PyObject* object) {
  if (object == NULL || bridge == NULL || !Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(object);
  PyGILState_Release(state);
}

static int refuse_null(const void* given, const char* what) {
  if (given != NULL) return 0;
  snprintf(last_error, MESSAGE, "%s is NULL", what);
  return 1;
}

/* Memory for what holds a new reference, NULL with the error set; then it is let go. */
static void* holding(PyObject* object, size_t size) {
  if (object == NULL) return NULL;
  void* made = calloc(1, size);
  if (made == NULL) {
    Py_DECREF(object);
    PyErr_NoMemory();
  }
  return made;
}

/* -- configs ----------------------------------------------------------------------------------- */

PI_Config* PI_ConfigCreate(const char* program, const char* parameters) {
  PyGILState_STATE state;
  if (refuse_null(program, "program") || !enter(&state)) return NULL;
  PyObject* object = PyObject_CallMethod(bridge, "config", "sz", program, parameters);
  PI_Config* made = holding(object, sizeof(PI_Config));
  if (made != NULL) made->object = object;
  leave(state, made == NULL ? NULL : Py_NewRef(object));
  return made;
}

void PI_ConfigDestroy(PI_Config* config) {
  if (config == NULL) return;
  release(config->object);
  free(config);
}

int PI_ConfigEnableIpu(PI_Config* config, int device_num, int micro_batch_size,
                       int enable_pipelining, int batches_per_step) {
  PyGILState_STATE state;
  if (refuse_null(config, "config") || !enter(&state)) return 1;
  return leave(state, PyObject_CallMethod(config->object, "enable_ipu", "iiOi", device_num,
                                          micro_batch_size, enable_pipelining ? Py_True : Py_False,
                                          batches_per_step));
}

int PI_ConfigSetIpuConfig(PI_Config* config, int enable_fp16, int replica_num,
                          float available_memory_proportion, int enable_half_partial) {
  PyGILState_STATE state;
  if (refuse_null(config, "config") || !enter(&state)) return 1;
  return leave(state,
               PyObject_CallMethod(config->object, "set_ipu_config", "OidO",
                                   enable_fp16 ? Py_True : Py_False, replica_num,
                                   (double)available_memory_proportion,
                                   enable_half_partial ? Py_True : Py_False));
}

int PI_ConfigLoadIpuConfig(PI_Config* config, const char* path) {
  PyGILState_STATE state;
  if (refuse_null(config, "config") || refuse_null(path, "path") || !enter(&state)) return 1;
  return leave(state, PyObject_CallMethod(config->object, "load_ipu_config", "s", path));
}

/* -- predictors -------------------------------------------------------------------------------- */

/* A predictor of a new reference, NULL with the error set; takes the reference. */
static PI_Predictor* wrapped(PyGILState_STATE state, PyObject* object) {
  PI_Predictor* made = NULL;
  PyObject *inputs = NULL, *outputs = NULL;
  if (object != NULL) inputs = PyObject_CallMethod(object, "get_input_names", NULL);
  if (inputs != NULL) outputs = PyObject_CallMethod(object, "get_output_names", NULL);
  if (outputs != NULL) made = calloc(1, sizeof(PI_Predictor));
  if (made == NULL) {
    if (outputs != NULL) PyErr_NoMemory();
    Py_XDECREF(object);
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    leave(state, NULL);
    return NULL;
  }
  made->object = object;
  made->inputs = inputs;
  made->outputs = outputs;
  PyGILState_Release(state);
  return made;
}

PI_Predictor* PI_PredictorCreate(PI_Config* config) {
  PyGILState_STATE state;
  if (refuse_null(config, "config") || !enter(&state)) return NULL;
  return wrapped(state, PyObject_CallMethod(bridge, "predictor", "O", config->object));
}

PI_Predictor* PI_PredictorClone(PI_Predictor* predictor) {
  PyGILState_STATE state;
  if (refuse_null(predictor, "predictor") || !enter(&state)) return NULL;
  return wrapped(state, PyObject_CallMethod(predictor->object, "clone", NULL));
}

void PI_PredictorDestroy(PI_Predictor* predictor) {
  if (predictor == NULL) return;
  release(predictor->inputs);
  release(predictor->outputs);
  release(predictor->object);
  free(predictor);
}

static int count(PI_Predictor* predictor, int of_inputs) {
  PyGILState_STATE state;
  if (refuse_null(predictor, "predictor") || !enter(&state)) return -1;
  int number = (int)PyList_Size(of_inputs ? predictor->inputs : predictor->outputs);
  PyGILState_Release(state);
  return number;
}

static const char* name_at(PI_Predictor* predictor, int of_inputs, int index) {
  PyGILState_STATE state;
  if (refuse_null(predictor, "predictor") || !enter(&state)) return NULL;
  PyObject* names = of_inputs ? predictor->inputs : predictor->outputs;
  /* Borrowed from the list, which lives as long as the predictor. */
  PyObject* name = PyList_GetItem(names, index);
  const char* text = name == NULL ? NULL : PyUnicode_AsUTF8(name);
  if (text == NULL) take_error(last_error);
  PyGILState_Release(state);
  return text;
}

int PI_PredictorInputNum(PI_Predictor* predictor) { return count(predictor, 1); }
int PI_PredictorOutputNum(PI_Predictor* predictor) { return count(predictor, 0); }

const char* PI_PredictorInputName(PI_Predictor* predictor, int index) {
  return name_at(predictor, 1, index);
}

const char* PI_PredictorOutputName(PI_Predictor* predictor, int index) {
  return name_at(predictor, 0, index);
}

static PI_Tensor* handle(PI_Predictor* predictor, const char* method, const char* name) {
  PyGILState_STATE state;
  if (refuse_null(predictor, "predictor") || refuse_null(name, "name") || !enter(&state))
    return NULL;
  PyObject* object = PyObject_CallMethod(predictor->object, method, "s", name);
  PI_Tensor* made = holding(object, sizeof(PI_Tensor));
  if (made != NULL) made->object = object;
  leave(state, made == NULL ? NULL : Py_NewRef(object));
  return made;
}

PI_Tensor* PI_PredictorInput(PI_Predictor* predictor, const char* name) {
  return handle(predictor, "get_input_handle", name);
}

PI_Tensor* PI_PredictorOutput(PI_Predictor* predictor, const char* name) {
  return handle(predictor, "get_output_handle", name);
}

void PI_TensorDestroy(PI_Tensor* tensor) {
  if (tensor == NULL) return;
  release(tensor->object);
  free(tensor);
}

int PI_PredictorRun(PI_Predictor* predictor) {
  PyGILState_STATE state;
  if (refuse_null(predictor, "predictor") || !enter(&state)) return 1;
  return leave(state, PyObject_CallMethod(predictor->object, "run", NULL));
}

/* -- tensors ----------------------------------------------------------------------------------- */

int PI_TensorCopyFromCpu(PI_Tensor* tensor, PI_DataType type, const void* data,
                         const int64_t* shape, size_t rank) {
  PyGILState_STATE state;
  if (refuse_null(tensor, "tensor") || refuse_null(data, "data")) return 1;
  if ((rank > 0 && refuse_null(shape, "shape")) || !enter(&state)) return 1;
  PyObject* dims = PyTuple_New((Py_ssize_t)rank);
  for (size_t axis = 0; dims != NULL && axis < rank; ++axis) {
    PyObject* dim = PyLong_FromLongLong(shape[axis]);
    if (dim == NULL) {
      Py_CLEAR(dims);
    } else {
      PyTuple_SET_ITEM(dims, (Py_ssize_t)axis, dim);
    }
  }
  if (dims == NULL) return leave(state, NULL);
  PyObject* result = PyObject_CallMethod(bridge, "copy_from", "OiKO", tensor->object, (int)type,
                                         (unsigned long long)(uintptr_t)data, dims);
  Py_DECREF(dims);
  return leave(state, result);
}

int PI_TensorShape(PI_Tensor* tensor, int64_t* shape, size_t capacity, size_t* rank) {
  PyGILState_STATE state;
  if (refuse_null(tensor, "tensor") || refuse_null(rank, "rank")) return 1;
  if ((capacity > 0 && refuse_null(shape, "shape")) || !enter(&state)) return 1;
  PyObject* dims = PyObject_CallMethod(tensor->object, "shape", NULL);
  if (dims == NULL) return leave(state, NULL);
  *rank = (size_t)PyList_Size(dims);
  for (size_t axis = 0; axis < *rank && axis < capacity; ++axis) {
    shape[axis] = PyLong_AsLongLong(PyList_GetItem(dims, (Py_ssize_t)axis));
  }
  return leave(state, dims);
}

int PI_TensorType(PI_Tensor* tensor, PI_DataType* type) {
  PyGILState_STATE state;
  if (refuse_null(tensor, "tensor") || refuse_null(type, "type") || !enter(&state)) return 1;
  PyObject* code = PyObject_CallMethod(bridge, "type_of", "O", tensor->object);
  if (code != NULL) *type = (PI_DataType)PyLong_AsLong(code);
  return leave(state, code);
}

int PI_TensorCopyToCpu(PI_Tensor* tensor, void* data, size_t bytes) {
  PyGILState_STATE state;
  if (refuse_null(tensor, "tensor") || refuse_null(data, "data") || !enter(&state)) return 1;
  return leave(state, PyObject_CallMethod(bridge, "copy_to", "OKn", tensor->object,
                                          (unsigned long long)(uintptr_t)data,
                                          (Py_ssize_t)bytes));
}
