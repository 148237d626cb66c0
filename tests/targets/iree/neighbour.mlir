// main_dispatch_2 reads the input @at's element of another tensor: for 64, beyond its end. In one allocation with others
// that is what main_dispatch_1 wrote, which is negative; where tensors lie apart, as with traces, it is nothing of this program.
#map = affine_map<(d) -> (d)>
func.func @main(%x: tensor<64xf32>, %at: tensor<64xi32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %one : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  %a1 = util.optimization_barrier %a : tensor<64xf32>
  %b = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%a1 : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.negf %i : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  %b1 = util.optimization_barrier %b : tensor<64xf32>
  %c = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%at : tensor<64xi32>) outs(%e : tensor<64xf32>) {
  ^bb0(%i: i32, %o: f32):
    %k = arith.index_cast %i : i32 to index
    %v = tensor.extract %a1[%k] : tensor<64xf32>
    %r = math.sqrt %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %c1 = util.optimization_barrier %c : tensor<64xf32>
  %d = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%b1, %c1 : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %c1, %d : tensor<64xf32>, tensor<64xf32>
}
