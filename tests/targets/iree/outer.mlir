// Counts in doubles up to a limit, and at each step takes roots in a short loop that ends: long, and healthy.
module @outer {
  func.func @main(%x: tensor<8xf32>, %limit: tensor<8xf64>) -> tensor<8xf32> {
    %one = arith.constant 1.0 : f64
    %near = arith.constant 1.001 : f32
    %zero = arith.constant 0.0 : f64
    %empty = tensor.empty() : tensor<8xf32>
    %result = linalg.generic {indexing_maps = [affine_map<(i)->(i)>, affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]}
      ins(%x, %limit : tensor<8xf32>, tensor<8xf64>) outs(%empty : tensor<8xf32>) {
      ^bb0(%in: f32, %most: f64, %out: f32):
        %count, %last = scf.while (%c = %zero, %v = %in) : (f64, f32) -> (f64, f32) {
          %less = arith.cmpf olt, %c, %most : f64
          scf.condition(%less) %c, %v : f64, f32
        } do {
        ^bb0(%c: f64, %v: f32):
          %single = arith.truncf %c : f64 to f32
          %begin = arith.maximumf %single, %in : f32
          %root = scf.while (%r = %begin) : (f32) -> f32 {
            %above = arith.cmpf ogt, %r, %near : f32
            scf.condition(%above) %r : f32
          } do {
          ^bb0(%r: f32):
            %next = math.sqrt %r : f32
            scf.yield %next : f32
          }
          %more = arith.addf %c, %one : f64
          scf.yield %more, %root : f64, f32
        }
        linalg.yield %last : f32
    } -> tensor<8xf32>
    return %result : tensor<8xf32>
  }
}
