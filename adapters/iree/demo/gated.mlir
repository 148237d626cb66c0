// Three dispatches, one after another: a matrix product, sums with a loop that never ends where the gate is above 0.5,
// and another product.
module @gated {
  func.func @main(%x: tensor<16x16xf32>, %gate: tensor<16x16xf32>, %w: tensor<16x32xf32>) -> tensor<16x8xf32> {
    %zero = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %square = tensor.empty() : tensor<16x16xf32>
    %wide = tensor.empty() : tensor<16x32xf32>
    %rows = tensor.empty() : tensor<16xf32>
    %narrow = tensor.empty() : tensor<16x8xf32>
    %wide0 = linalg.fill ins(%zero : f32) outs(%wide : tensor<16x32xf32>) -> tensor<16x32xf32>
    %product = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x32xf32>) outs(%wide0 : tensor<16x32xf32>) -> tensor<16x32xf32>
    %rows0 = linalg.fill ins(%zero : f32) outs(%rows : tensor<16xf32>) -> tensor<16xf32>
    %sums = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i)>], iterator_types = ["parallel","reduction"]}
      ins(%product : tensor<16x32xf32>) outs(%rows0 : tensor<16xf32>) {
      ^bb0(%in: f32, %sum: f32):
        %next = arith.addf %in, %sum : f32
        linalg.yield %next : f32
    } -> tensor<16xf32>
    %looped = linalg.generic {indexing_maps = [affine_map<(i,j)->(i)>, affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i,j)>], iterator_types = ["parallel","parallel"]}
      ins(%sums, %gate : tensor<16xf32>, tensor<16x16xf32>) outs(%square : tensor<16x16xf32>) {
      ^bb0(%in: f32, %limit: f32, %out: f32):
        %left = scf.while (%value = %limit) : (f32) -> f32 {
          %above = arith.cmpf ogt, %value, %half : f32
          scf.condition(%above) %value : f32
        } do {
        ^bb0(%value: f32):
          %root = math.sqrt %value : f32
          scf.yield %root : f32
        }
        %result = arith.addf %in, %left : f32
        linalg.yield %result : f32
    } -> tensor<16x16xf32>
    %vector = tensor.extract_slice %w[0, 0] [16, 8] [1, 1] : tensor<16x32xf32> to tensor<16x8xf32>
    %narrow0 = linalg.fill ins(%zero : f32) outs(%narrow : tensor<16x8xf32>) -> tensor<16x8xf32>
    %last = linalg.matmul ins(%looped, %vector : tensor<16x16xf32>, tensor<16x8xf32>) outs(%narrow0 : tensor<16x8xf32>) -> tensor<16x8xf32>
    return %last : tensor<16x8xf32>
  }
}
