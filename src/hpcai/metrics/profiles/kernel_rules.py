"""Assign kernels and operations to categories by name: an ordered table in which the first matching pattern wins.

The order matters: names of convolutions contain "gemm", batch normalisation and layout changes are in cuDNN's name
space, copies are inside element-wise kernels, and names of attention contain "fprop" (profilers.md, section 5).
"""

import re

RULE_SET = "kernels 2"
"""Name and version of this table; every change of a rule changes it, because shares depend on it."""

MEMCPY, ALLREDUCE, ARRANGEMENT = "memcpy", "allreduce", "data arrangement"
BATCH_NORM, POOLING, CONVOLUTION = "batch normalisation", "pooling", "convolution"
GEMM, ELEMENTWISE = "GEMM", "element-wise"
COLLECTIVES, LAYER_NORM, REDUCTION, SOFTMAX = "other collectives", "layer normalisation", "reduction", "softmax"
ATTENTION, RECURRENT, OPTIMISER, INPUT, OTHER = "attention", "recurrent", "optimiser", "input pipeline", "other"

HPC_AI500_CATEGORIES = (MEMCPY, ALLREDUCE, ARRANGEMENT, BATCH_NORM, POOLING, CONVOLUTION, GEMM, ELEMENTWISE)
"""The eight categories of HPC AI500 V2.0, Figure 10, where allreduce means NCCL."""
FURTHER_CATEGORIES = (COLLECTIVES, LAYER_NORM, REDUCTION, SOFTMAX, ATTENTION, RECURRENT, OPTIMISER, INPUT)
CATEGORIES = (*HPC_AI500_CATEGORIES, *FURTHER_CATEGORIES, OTHER)

_PREFIX = "_*(?:Mkl)?(?:Native)?(?:Quantized)?(?:Fused)?"

OPERATION_RULES: tuple[tuple[str, str], ...] = (
    (ALLREDUCE, r"(?:Horovod\w*|[A-Z]+_)(?i:Allreduce)|CollectiveReduce(?:V\d)?|NcclAllReduce"),
    (COLLECTIVES, r"Horovod\w+|Collective\w+|Nccl\w+"),
    (INPUT, r"\w*Iterator\w*|\w*Dataset\w*|Decode\w+|Parse\w*Example\w*|ReadFile|Py(?:Stateless)?Func|EagerPyFunc"),
    (MEMCPY, r"_*(?:Copy|CopyHost|DeepCopy|CopyFromMesh|CopyToMesh)"),
    (OPTIMISER, r"(?:Resource)?(?:Sparse)?Apply\w+|Assign\w*|Resource\w*Assign\w*|ResourceScatter\w+"),
    (BATCH_NORM, rf"{_PREFIX}BatchNorm\w*"),
    (LAYER_NORM, rf"{_PREFIX}(?:Layer|Instance|Group)Norm\w*"),
    (POOLING, rf"{_PREFIX}(?:Fractional)?(?:Max|Avg)Pool\w*"),
    (CONVOLUTION, rf"{_PREFIX}(?:Dummy)?(?:\w*Pad(?:With)?(?:Fused)?)?(?:Depthwise)?(?:Xla)?Conv(?!ert)\w*"),
    (GEMM, rf"{_PREFIX}(?:Sparse)?(?:Batch)?MatMul\w*|{_PREFIX}Einsum|Xla(?:Dot|Einsum)\w*|SparseMatrix\w*MatMul"),
    (SOFTMAX, rf"{_PREFIX}(?:Log|Sparse|SparseMatrix)?Softmax\w*"),
    (RECURRENT, r"CudnnRNN\w*|(?:Block)?LSTM\w*|(?:Block)?GRU\w*"),
    (
        ARRANGEMENT,
        rf"{_PREFIX}(?:Conjugate)?Transpose|(?:{_PREFIX}|Xla)Concat\w*|Split(?:V)?|Slice\w*|StridedSlice\w*|"
        r"(?:Resource)?Gather\w*|Pad(?:V2)?|MirrorPad\w*|Tile\w*|Reshape|ExpandDims|Squeeze|Pack|Unpack|Stack|Unstack|"
        r"Reverse\w*|Roll|SpaceTo\w+|DepthToSpace|BatchToSpace\w*|BroadcastTo|InvertPermutation|OneHot|Scatter\w*|"
        r"Tensor(?:Strided)?(?:Scatter|Slice)\w*|TensorList\w+|(?:Parallel)?DynamicStitch|DynamicPartition|Where|Batch|"
        r"Unbatch\w*|_Mkl(?:ToTf|InputConversion|Reorder)|(?:Batch)?MatrixDiag\w*|Diag(?:Part)?|ExtractImagePatches|"
        r"Xla(?:Dynamic\w+|Gather|Scatter|Pad)",
    ),
    (
        REDUCTION,
        r"Sum|Mean|Max|Min|Prod|All|Any|ArgMax|ArgMin|EuclideanNorm|L2Loss|BiasAddGrad|Cumsum|Cumprod|\w*Segment\w+|"
        r"(?:Dense)?Bincount|XlaReduce\w*|TopK\w*",
    ),
    (
        ELEMENTWISE,
        rf"{_PREFIX}(?:Add|AddV2|AddN|AccumulateNV2|Sub|Mul|MulNoNan|Div|DivNoNan|RealDiv|TruncateDiv|FloorDiv|FloorMod|"
        r"Mod|Neg|Abs|Sign|Sqrt|Rsqrt|Square|SquaredDifference|Pow|Exp|Expm1|Log|Log1p|Maximum|Minimum|Floor|Ceil|Round|"
        r"Rint|Reciprocal|Inv|Erf|Erfc|A?(?:Sin|Cos|Tan)h?|Atan2|Sigmoid|Softplus|Softsign|Relu|Relu6|LeakyRelu|Elu|Selu|"
        r"Swish|Mish|Dequantize|QuantizeV2|Xlogy|BiasAdd|BiasAddV1)(?:Grad\w*)?",
    ),
    (
        ELEMENTWISE,
        r"Cast|Bitcast|Select(?:V2)?|ClipByValue|ZerosLike|OnesLike|Fill|Less(?:Equal)?|Greater(?:Equal)?|(?:Not)?Equal|"
        r"Logical\w+|IsFinite|IsNan|IsInf|CheckNumerics\w*|State(?:ful|less)\w*(?:Random|Normal|Uniform)\w*|"
        r"Random(?:Uniform|StandardNormal)\w*|(?:Parameterized)?TruncatedNormal",
    ),
)
"""Types of TensorFlow's operations, as its own profiler names them: a pattern must fit the whole name.

Sums over segments (UnsortedSegmentSum) are reductions, because they add. Scatters (ScatterNd, TensorScatterAdd) are
data arrangement, like gathers, because they mostly move data."""

KERNEL_RULES: tuple[tuple[str, str], ...] = (
    (MEMCPY, r"^\[CUDA mem(?:cpy|set)|^(?:MEMCPY|MEMSET|Memcpy|Memset)|^MEMORY_COPY|^__amd_rocclr_"),
    (ALLREDUCE, r"nccl\w*All_?Reduce"),
    (COLLECTIVES, r"\bnccl(?:Dev)?(?:Kernel)?_?\w*"),
    (ATTENTION, r"flash_?(?:fwd|bwd|fprop|bprop|attn)|fmha|[_:]sdpa_|[Ff]lashAttn|[Aa]ttention(?:Kernel|_kernel)"),
    (
        ARRANGEMENT,
        r"nchwToNhwc|nhwcToNchw|nchwTo\w+Kernel|region_transform|CatArrayBatchedCopy|direct_copy_kernel|copy_device_to_device|"
        r"index_elementwise_kernel|vectorized_gather_kernel|Gather\w*Kernel|gather\w*Kernel|indexSelect|[Ss]catter\w*[Kk]ernel|"
        r"tensorTransformGeneric|SwapDimension|ShuffleInTensor|Concat(?:Fixed|Variable)Kernel|SplitV?OpKernel|PadInput|"
        r"[Tt]ranspose\w*[Kk]ernel|batched_transpose_|StridedSlice|SliceKernel|TileKernel|"
        r"^(?:wrapped_|loop_|input_)?(?:transpose|copy|concatenate|slice|dynamic_slice|dynamic_update_slice|gather|pad|reverse)"
        r"(?:_fusion)?[._\d]*$",
    ),
    (BATCH_NORM, r"\bbn_(?:fw|bw)_|bn_(?:fw|bw)_(?:tr|inf)|batch_?norm|BatchNorm"),
    (LAYER_NORM, r"layer_?norm|LayerNorm|[Gg]roup_?[Nn]orm|[Ii]nstance_?[Nn]orm"),
    (POOLING, r"(?:max|avg|average)_?pool|pooling_(?:fw|bw)|mloPooling|MaxPool|AvgPool|AveragePool"),
    (
        CONVOLUTION,
        r"fprop|dgrad|wgrad|convolve|winograd|implicit_gemm|fft2d_(?:r2c|c2r)|[shi]\d*cudnn_|[Cc]onv[123][Dd]|conv_depthwise|"
        r"im2col|col2im|miopen\w*Conv|MIOpenConv|igemm_(?:fwd|bwd|wrw)|naive_conv_|^convolution[._\d]*$",
    ),
    (GEMM, r"gemm|Gemm|GEMM|gemv|splitKreduce|nvjet_|^Cijk_|^dot[._\d]*$"),
    (OPTIMISER, r"multi_tensor_apply_kernel|[Ff]used_?[Aa]dam|ApplyGradientDescent|ApplyMomentum|ApplyAdam"),
    (
        REDUCTION,
        r"^(?:wrapped_|loop_|input_)?(?:row_|column_)?reduc(?:e|tion)\w*$",
    ),
    (
        ELEMENTWISE,
        r"elementwise|elemWise|elementWise|element_wise|add_tensor_kernel|scalePackedTensor|VectorizedBroadcastKernel|"
        r"op_tensor_kernel|activation_(?:fw|bw)|EigenMetaKernel|Bias(?:NHWC|NCHW)\w*Kernel|^(?:\w*_)?fusion(?:[._]\d+)*$",
    ),
    (SOFTMAX, r"[Ss]oft_?[Mm]ax"),
    (RECURRENT, r"(?:^|[^A-Za-z])RNN_|persistRNN|[Ll][Ss][Tt][Mm]_|[Gg][Rr][Uu]_"),
    (REDUCTION, r"reduce_kernel|(?:Row|Column|Block)Reduce\w*|DeviceReduce|[Ss]egment\w*Kernel"),
)
"""Names of GPU kernels, mangled or not; a pattern may match anywhere."""

RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    *((category, re.compile(rf"^(?!_Z)(?:{pattern})$", re.ASCII)) for category, pattern in OPERATION_RULES),
    *((category, re.compile(pattern, re.ASCII)) for category, pattern in KERNEL_RULES),
)


def category_of(name: str) -> str:
    """Return the category of a name; "other" if no rule matches."""
    return next((category for category, pattern in RULES if pattern.search(name)), OTHER)


def name_category(name: str) -> str:
    """Return the display name of a category, however a rule set spells it."""
    words = name.strip().lower().replace("_", " ")
    spellings = {
        "gemm": "GEMM", "batch norm": "batch normalisation", "batch normalization": "batch normalisation",
        "nccl allreduce": "allreduce", "elementwise": "element-wise", "element wise": "element-wise",
    }  # fmt: skip
    return spellings.get(words, words)
