func.func @softmax(%x: tensor<4x16xf32>, %w: tensor<16x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x16xf32>) outs(%init : tensor<4x16xf32>) -> tensor<4x16xf32>
  %big = arith.constant dense<-1000.0> : tensor<4x16xf32>
  %shifted = arith.addf %y, %big : tensor<4x16xf32>
  %log = math.log %shifted : tensor<4x16xf32>
  return %log : tensor<4x16xf32>
}
