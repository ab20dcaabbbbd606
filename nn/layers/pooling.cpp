#include <linnet/nn/layers/pooling.h>

#include <linnet/core/error.h>

namespace linnet::nn {

MaxPool2d::MaxPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options)
    : Module(parent, std::move(name), "MaxPool2d"), kernel_(kernel), options_(options) {}

Tensor MaxPool2d::operator()(const Tensor& x, Where where) const { return max_pool2d(x, kernel_, options_, where); }

AvgPool2d::AvgPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options)
    : Module(parent, std::move(name), "AvgPool2d"), kernel_(kernel), options_(options) {}

Tensor AvgPool2d::operator()(const Tensor& x, Where where) const { return avg_pool2d(x, kernel_, options_, where); }

}  // namespace linnet::nn
