// Counts in single precision, in two loops of which each ends: long, and healthy.
module @singles {
  func.func @main(%x: tensor<8xf32>, %limit: tensor<8xf32>) -> tensor<8xf32> {
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<8xf32>
    %result = linalg.generic {indexing_maps = [affine_map<(i)->(i)>, affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]}
      ins(%x, %limit : tensor<8xf32>, tensor<8xf32>) outs(%empty : tensor<8xf32>) {
      ^bb0(%in: f32, %most: f32, %out: f32):
        %count = scf.while (%c = %in) : (f32) -> f32 {
          %less = arith.cmpf olt, %c, %most : f32
          scf.condition(%less) %c : f32
        } do {
        ^bb0(%c: f32):
          %inner = scf.while (%d = %zero) : (f32) -> f32 {
            %below = arith.cmpf olt, %d, %most : f32
            scf.condition(%below) %d : f32
          } do {
          ^bb0(%d: f32):
            %up = arith.addf %d, %one : f32
            scf.yield %up : f32
          }
          %part = arith.divf %inner, %most : f32
          %next = arith.addf %c, %part : f32
          scf.yield %next : f32
        }
        linalg.yield %count : f32
    } -> tensor<8xf32>
    return %result : tensor<8xf32>
  }
}
