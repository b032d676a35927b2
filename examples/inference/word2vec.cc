// The word2vec sample in C++: four words in, probabilities out, on IPU and CPU.
//
//   python -m examples.inference.word2vec            saves the model
//   python -m paddle_ipu.inference.c_api.build             builds the library
//   g++ -std=c++17 examples/inference/word2vec.cc -o out/c/word2vec -I out/c -L out/c
//       -lpaddle_ipu_inference -Wl,-rpath,$PWD/out/c
//   out/c/word2vec out/word2vec/word2vec.json out/word2vec/word2vec.pdiparams

#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "paddle_ipu_inference.h"

using Config = std::unique_ptr<PI_Config, decltype(&PI_ConfigDestroy)>;
using Predictor = std::unique_ptr<PI_Predictor, decltype(&PI_PredictorDestroy)>;
using Tensor = std::unique_ptr<PI_Tensor, decltype(&PI_TensorDestroy)>;

void Check(bool ok) {
  if (!ok) throw std::runtime_error(PI_LastError());
}

std::vector<float> Infer(const char* program, const char* parameters, bool use_ipu) {
  Config config(PI_ConfigCreate(program, parameters), PI_ConfigDestroy);
  Check(config != nullptr);
  if (use_ipu) Check(PI_ConfigEnableIpu(config.get(), 1, 4, 0, 1) == 0);
  Predictor predictor(PI_PredictorCreate(config.get()), PI_PredictorDestroy);
  Check(predictor != nullptr);

  // For simplicity, all slots have the same data.
  const std::vector<int64_t> data{1, 2, 3, 4}, shape{4, 1};
  for (int i = 0; i < PI_PredictorInputNum(predictor.get()); ++i) {
    const char* name = PI_PredictorInputName(predictor.get(), i);
    Tensor input(PI_PredictorInput(predictor.get(), name), PI_TensorDestroy);
    Check(input != nullptr);
    Check(PI_TensorCopyFromCpu(input.get(), PI_INT64, data.data(), shape.data(), 2) == 0);
  }
  Check(PI_PredictorRun(predictor.get()) == 0);

  const char* name = PI_PredictorOutputName(predictor.get(), 0);
  Tensor output(PI_PredictorOutput(predictor.get(), name), PI_TensorDestroy);
  Check(output != nullptr);
  int64_t dims[2];
  size_t rank = 0;
  Check(PI_TensorShape(output.get(), dims, 2, &rank) == 0);
  if (rank != 2) throw std::runtime_error("the output has rank " + std::to_string(rank));
  std::vector<float> result(dims[0] * dims[1]);
  Check(PI_TensorCopyToCpu(output.get(), result.data(), result.size() * sizeof(float)) == 0);
  return result;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " PROGRAM PARAMETERS\n";
    return 2;
  }
  try {
    const auto ipu = Infer(argv[1], argv[2], true), cpu = Infer(argv[1], argv[2], false);
    if (ipu.size() != cpu.size()) throw std::runtime_error("the outputs have different sizes");
    double apart = 0;
    for (size_t i = 0; i < ipu.size(); ++i) {
      apart = std::max(apart, std::fabs(static_cast<double>(ipu[i]) - cpu[i]));
    }
    std::cout << ipu.size() << " numbers, largest difference " << apart << std::endl;
    if (!(apart <= 1e-6)) return 1;
    std::cout << "Finished" << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
