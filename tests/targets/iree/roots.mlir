// Three dispatches: doubles, roots (NaN of what is below zero), and a sum that gets the NaN.
module @roots {
  func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
    %e = tensor.empty() : tensor<8xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(d0)->(d0)>, affine_map<(d0)->(d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
      ^bb0(%i: f32, %o: f32):
        %s = arith.addf %i, %i : f32
        linalg.yield %s : f32
    } -> tensor<8xf32>
    %keep = util.optimization_barrier %a : tensor<8xf32>
    %b = linalg.generic {indexing_maps = [affine_map<(d0)->(d0)>, affine_map<(d0)->(d0)>], iterator_types = ["parallel"]}
      ins(%keep : tensor<8xf32>) outs(%e : tensor<8xf32>) {
      ^bb0(%i: f32, %o: f32):
        %s = math.sqrt %i : f32
        linalg.yield %s : f32
    } -> tensor<8xf32>
    %keep2 = util.optimization_barrier %b : tensor<8xf32>
    %c0 = arith.constant 0.0 : f32
    %e2 = tensor.empty() : tensor<f32>
    %z = linalg.fill ins(%c0 : f32) outs(%e2 : tensor<f32>) -> tensor<f32>
    %m = linalg.generic {indexing_maps = [affine_map<(d0)->(d0)>, affine_map<(d0)->()>], iterator_types = ["reduction"]}
      ins(%keep2 : tensor<8xf32>) outs(%z : tensor<f32>) {
      ^bb0(%i: f32, %o: f32):
        %s = arith.addf %i, %o : f32
        linalg.yield %s : f32
    } -> tensor<f32>
    return %m : tensor<f32>
  }
}
