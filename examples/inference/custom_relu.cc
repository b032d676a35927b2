// The custom operator of the sample, for the CPU: a ReLU.

#include <vector>

#include "paddle/extension.h"

std::vector<paddle::Tensor> ReluForward(const paddle::Tensor& x) {
  auto out = paddle::empty(x.shape(), x.dtype(), paddle::CPUPlace());
  const float* from = x.data<float>();
  float* to = out.data<float>();
  for (int64_t i = 0; i < x.size(); ++i) {
    to[i] = from[i] > 0 ? from[i] : 0.0f;
  }
  return {out};
}

std::vector<std::vector<int64_t>> ReluShape(std::vector<int64_t> x) { return {x}; }
std::vector<paddle::DataType> ReluType(paddle::DataType x) { return {x}; }

PD_BUILD_OP(custom_relu)
    .Inputs({"X"})
    .Outputs({"Out"})
    .SetKernelFn(PD_KERNEL(ReluForward))
    .SetInferShapeFn(PD_INFER_SHAPE(ReluShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(ReluType));
