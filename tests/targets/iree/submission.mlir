// Three dispatches in one command buffer; the second one computes for long. For Vulkan, where an endless loop is cut.
module @submission {
  func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %steps = arith.constant 60000 : index
    %one = arith.constant 1.0 : f32
    %empty = tensor.empty() : tensor<1024x1024xf32>
    %turned = flow.dispatch.region -> (tensor<1024x1024xf32>) {
      %made = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(j,i)>], iterator_types = ["parallel","parallel"]}
        ins(%x : tensor<1024x1024xf32>) outs(%empty : tensor<1024x1024xf32>) {
        ^bb0(%in: f32, %out: f32):
          %sum = arith.addf %in, %one : f32
          linalg.yield %sum : f32
      } -> tensor<1024x1024xf32>
      flow.return %made : tensor<1024x1024xf32>
    }
    %long = flow.dispatch.region -> (tensor<1024x1024xf32>) {
      %made = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i,j)>], iterator_types = ["parallel","parallel"]}
        ins(%turned : tensor<1024x1024xf32>) outs(%empty : tensor<1024x1024xf32>) {
        ^bb0(%in: f32, %out: f32):
          %end = scf.for %i = %c0 to %steps step %c1 iter_args(%value = %in) -> (f32) {
            %root = math.sqrt %value : f32
            %next = arith.addf %root, %one : f32
            scf.yield %next : f32
          }
          linalg.yield %end : f32
      } -> tensor<1024x1024xf32>
      flow.return %made : tensor<1024x1024xf32>
    }
    %squared = flow.dispatch.region -> (tensor<1024x1024xf32>) {
      %made = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i,j)>], iterator_types = ["parallel","parallel"]}
        ins(%long : tensor<1024x1024xf32>) outs(%empty : tensor<1024x1024xf32>) {
        ^bb0(%in: f32, %out: f32):
          %product = arith.mulf %in, %in : f32
          linalg.yield %product : f32
      } -> tensor<1024x1024xf32>
      flow.return %made : tensor<1024x1024xf32>
    }
    return %squared : tensor<1024x1024xf32>
  }
}
