// Convolutions by oneDNN whose weights are those of a model, as training has them, and their gradients.

#pragma once

#include "plan.h"

#include <memory>

// What a plan computes, by its number in convolution.py. With x [N, H, W, C], weights [M, C / groups, height, width]
// and a result [N, H', W', M], all float32:
enum Direction : int64_t {
  kForward,         // x, weights -> result
  kDataGradient,    // the result's gradient, weights -> that of x
  kKernelGradient,  // x, the result's gradient -> that of the weights
};

// A spec and a direction.
constexpr int kTrainingNumbers = kNumbers + 1;

// What a run reads and writes; `scratch` has as many floats as its plan asks for.
struct TrainingBuffers {
  const float *first, *second;
  float *result, *scratch;
};

// A convolution or gradient: stages behind each other, each cut into parts that may run at once, in any order. The
// parts do not depend on how many threads run them, nor do the numbers.
class TrainingPlan {
 public:
  virtual ~TrainingPlan() = default;
  virtual int64_t scratch() const = 0;
  virtual int64_t stages() const = 0;
  virtual int64_t parts(int64_t stage) const = 0;
  virtual void take(int64_t stage, int64_t part, const TrainingBuffers& buffers) const = 0;
};

// The plan of a spec without bias, addend and activation; it raises std::runtime_error where oneDNN has no fast
// implementation.
std::unique_ptr<TrainingPlan> make_training(const Spec& spec, Direction direction);
