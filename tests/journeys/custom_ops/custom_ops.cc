// Custom operators with CPU kernels, for tests: those of published IPU scripts and a leaky ReLU.

#include <cmath>
#include <string>
#include <vector>

#include "paddle/extension.h"

using Tensors = std::vector<paddle::Tensor>;
using Shape = std::vector<int64_t>;

namespace {

paddle::Tensor Like(const paddle::Tensor& x) {
  return paddle::empty(x.shape(), x.dtype(), paddle::CPUPlace());
}

Tensors Copy(const paddle::Tensor& x) {
  auto out = Like(x);
  std::copy(x.data<float>(), x.data<float>() + x.size(), out.data<float>());
  return {out};
}

Tensors CopyGradient(const paddle::Tensor& gradient) { return Copy(gradient); }

// As operators were written for Paddle 2.0 to 2.4.
Tensors Leaky(const paddle::Tensor& x, float alpha) {
  auto out = paddle::Tensor(paddle::PlaceType::kCPU, x.shape());
  float* to = out.mutable_data<float>(x.place());
  for (int64_t i = 0; i < x.size(); ++i) {
    const float value = x.data<float>()[i];
    to[i] = value > 0 ? value : alpha * value;
  }
  return {out};
}

Tensors LeakyGradient(const paddle::Tensor& x, const paddle::Tensor& gradient, float alpha) {
  auto out = Like(x);
  for (int64_t i = 0; i < x.size(); ++i) {
    out.data<float>()[i] = (x.data<float>()[i] > 0 ? 1.0f : alpha) * gradient.data<float>()[i];
  }
  return {out};
}

std::vector<Shape> LeakyShape(Shape x, float alpha) { return {x}; }
std::vector<paddle::DataType> LeakyType(paddle::DataType x, float alpha) { return {x}; }

Tensors Nll(const paddle::Tensor& x, const paddle::Tensor& y, int reduction, std::string ignored,
            bool is_log) {
  return {paddle::full({1}, 0.0f, x.dtype(), paddle::CPUPlace())};
}

std::vector<Shape> NllShape(Shape x, Shape y, int reduction, std::string ignored, bool is_log) {
  return {reduction == 2 ? y : Shape{1}};
}

std::vector<paddle::DataType> NllType(paddle::DataType x, paddle::DataType y, int reduction,
                                      std::string ignored, bool is_log) {
  return {x};
}

Tensors NllGradient(const paddle::Tensor& x, const paddle::Tensor& y,
                    const paddle::Tensor& gradient, int reduction, std::string ignored,
                    bool is_log) {
  return {Like(x)};
}

Tensors Rows(const paddle::Tensor& table, const paddle::Tensor& rows) {
  const int64_t width = table.shape()[1];
  auto out = paddle::empty({rows.shape()[0], width}, table.dtype(), paddle::CPUPlace());
  for (int64_t i = 0; i < rows.size(); ++i) {
    const float* from = table.data<float>() + rows.data<int64_t>()[i] * width;
    std::copy(from, from + width, out.data<float>() + i * width);
  }
  return {out};
}

std::vector<Shape> RowsShape(Shape table, Shape rows) { return {{rows[0], table[1]}}; }
std::vector<paddle::DataType> RowsType(paddle::DataType table, paddle::DataType rows) {
  return {table};
}

Tensors RowsGradient(const paddle::Tensor& table, const paddle::Tensor& rows,
                     const paddle::Tensor& gradient) {
  auto out = paddle::full(table.shape(), 0.0f, table.dtype(), paddle::CPUPlace());
  const int64_t width = table.shape()[1];
  for (int64_t i = 0; i < rows.size(); ++i) {
    for (int64_t j = 0; j < width; ++j) {
      out.data<float>()[rows.data<int64_t>()[i] * width + j] += gradient.data<float>()[i * width + j];
    }
  }
  return {out};
}

// Of the operators below only shapes and dtypes matter here: an IPU program takes no kernel of theirs.
std::vector<paddle::Tensor> CopySecond(const paddle::Tensor& x, const paddle::Tensor& y) { return {y}; }
std::vector<paddle::Tensor> CopyFirst(const paddle::Tensor& x, const paddle::Tensor& y) { return {x}; }
std::vector<std::vector<int64_t>> MaskShape(std::vector<int64_t> x, std::vector<int64_t> y) {
  return {{x[0], 1, x[1], x[1]}};
}
std::vector<paddle::DataType> SecondType(paddle::DataType x, paddle::DataType y) { return {y}; }
std::vector<std::vector<int64_t>> FirstShape(std::vector<int64_t> x, std::vector<int64_t> y) {
  return {x};
}
std::vector<paddle::DataType> FirstType(paddle::DataType x, paddle::DataType y) { return {x}; }

}  // namespace

PD_BUILD_OP(custom_AttentionMask)
    .Inputs({"X", "Y"})
    .Outputs({"Out"})
    .Attrs({"dataType: std::string"})
    .SetKernelFn(PD_KERNEL(CopySecond))
    .SetInferShapeFn(PD_INFER_SHAPE(MaskShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(SecondType));

PD_BUILD_OP(custom_DropoutWithTrainingSwitch)
    .Inputs({"X", "mode"})
    .Outputs({"Out"})
    .Attrs({"ratio: float"})
    .SetKernelFn(PD_KERNEL(CopyFirst))
    .SetInferShapeFn(PD_INFER_SHAPE(FirstShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(FirstType));
PD_BUILD_GRAD_OP(custom_DropoutWithTrainingSwitch)
    .Inputs({paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .SetKernelFn(PD_KERNEL(CopyGradient));

PD_BUILD_OP(custom_EmbeddingGather)
    .Inputs({"X", "indices"})
    .Outputs({"Out"})
    .Attrs({"axis: int64_t"})
    .SetKernelFn(PD_KERNEL(Rows))
    .SetInferShapeFn(PD_INFER_SHAPE(RowsShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(RowsType));
PD_BUILD_GRAD_OP(custom_EmbeddingGather)
    .Inputs({"X", "indices", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .SetKernelFn(PD_KERNEL(RowsGradient));

#define PASSES_ON(name)                                             \
  PD_BUILD_OP(name).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(Copy)); \
  PD_BUILD_GRAD_OP(name)                                            \
      .Inputs({paddle::Grad("Out")})                                \
      .Outputs({paddle::Grad("X")})                                 \
      .SetKernelFn(PD_KERNEL(CopyGradient));

PD_BUILD_OP(custom_Detach)
    .Inputs({"X"})
    .Outputs({"Out"})
    .Attrs({"pass_through_creation: int"})
    .SetKernelFn(PD_KERNEL(Copy));

PASSES_ON(custom_CastFromFp8)
PASSES_ON(custom_CastToFp8)
PASSES_ON(detach)
PASSES_ON(identity)

PD_BUILD_OP(test_leaky)
    .Inputs({"X"})
    .Outputs({"Out"})
    .Attrs({"alpha: float"})
    .SetKernelFn(PD_KERNEL(Leaky))
    .SetInferShapeFn(PD_INFER_SHAPE(LeakyShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(LeakyType));
PD_BUILD_GRAD_OP(test_leaky)
    .Inputs({"X", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .Attrs({"alpha: float"})
    .SetKernelFn(PD_KERNEL(LeakyGradient));

PD_BUILD_OP(custom_nll_loss)
    .Inputs({"X", "Y"})
    .Outputs({"Out"})
    .Attrs({"reduction: int", "ignoreIndex: std::string", "inputIsLogProbability: bool"})
    .SetKernelFn(PD_KERNEL(Nll))
    .SetInferShapeFn(PD_INFER_SHAPE(NllShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(NllType));
PD_BUILD_GRAD_OP(custom_nll_loss)
    .Inputs({"X", "Y", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .Attrs({"reduction: int", "ignoreIndex: std::string", "inputIsLogProbability: bool"})
    .SetKernelFn(PD_KERNEL(NllGradient));

PD_BUILD_OP(tied_gather)
    .Inputs({"X", "Rows"})
    .Outputs({"Out"})
    .SetKernelFn(PD_KERNEL(Rows))
    .SetInferShapeFn(PD_INFER_SHAPE(RowsShape))
    .SetInferDtypeFn(PD_INFER_DTYPE(RowsType));
PD_BUILD_GRAD_OP(tied_gather)
    .Inputs({"X", "Rows", paddle::Grad("Out")})
    .Outputs({paddle::Grad("X")})
    .SetKernelFn(PD_KERNEL(RowsGradient));
