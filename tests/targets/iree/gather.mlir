// Picks elements by numbers that are input: nothing checks that they are inside.
module @gather {
  func.func @main(%x: tensor<64xf32>, %at: tensor<256xi32>) -> tensor<256xf32> {
    %empty = tensor.empty() : tensor<256xf32>
    %picked = linalg.generic {indexing_maps = [affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]}
      ins(%at : tensor<256xi32>) outs(%empty : tensor<256xf32>) {
      ^bb0(%in: i32, %out: f32):
        %place = arith.index_cast %in : i32 to index
        %value = tensor.extract %x[%place] : tensor<64xf32>
        linalg.yield %value : f32
    } -> tensor<256xf32>
    return %picked : tensor<256xf32>
  }
}
