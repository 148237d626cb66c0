// One dispatch of many workgroups that each compute for a while: long, and healthy.
module @steps {
  func.func @main(%x: tensor<4096x64xf32>, %count: tensor<1xi32>) -> tensor<4096x64xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant 1.0 : f32
    %number = tensor.extract %count[%c0] : tensor<1xi32>
    %steps = arith.index_cast %number : i32 to index
    %empty = tensor.empty() : tensor<4096x64xf32>
    %result = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i,j)>], iterator_types = ["parallel","parallel"]}
      ins(%x : tensor<4096x64xf32>) outs(%empty : tensor<4096x64xf32>) {
      ^bb0(%in: f32, %out: f32):
        %sum = scf.for %i = %c0 to %steps step %c1 iter_args(%value = %in) -> (f32) {
          %root = math.sqrt %value : f32
          %next = arith.addf %root, %one : f32
          scf.yield %next : f32
        }
        linalg.yield %sum : f32
    } -> tensor<4096x64xf32>
    return %result : tensor<4096x64xf32>
  }
}
