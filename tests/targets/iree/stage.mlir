// One stage of a pipeline, for asynchronous calls: main$async(x, w, wait fence, signal fence).
module @stage {
  func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<32x32xf32>
    %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x32xf32>) -> tensor<32x32xf32>
    %product = linalg.matmul ins(%x, %w : tensor<32x32xf32>, tensor<32x32xf32>) outs(%filled : tensor<32x32xf32>) -> tensor<32x32xf32>
    return %product : tensor<32x32xf32>
  }
}
