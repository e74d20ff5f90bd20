"""TFLite's operators and their option tables, one row each, for reader and writer (schema.py parses them).

``Table | operators that use it | field:type=default ...`` in the order of the file format: the position of a row is
the code of the table in its union (from 1 on), the position of a field is its slot. ``_`` is a slot no longer in use,
``[x]`` a vector. A type is a scalar, ``string``, or an enum of schema.py; without ``=`` the default is zero or the
enum's first member.
"""

#: The names of BuiltinOperator; the position is the code.
OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM
MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS
SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2
GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG
SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT
UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE
MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5
SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO
RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE
RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD
STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE
STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE
STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE
STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""

#: The union BuiltinOptions.
OPTIONS = """
Conv2DOptions | CONV_2D | padding:Padding stride_w:int32 stride_h:int32
  fused_activation_function:ActivationFunctionType dilation_w_factor:int32=1 dilation_h_factor:int32=1
  quantized_bias_type:TensorType
DepthwiseConv2DOptions | DEPTHWISE_CONV_2D | padding:Padding stride_w:int32 stride_h:int32 depth_multiplier:int32
  fused_activation_function:ActivationFunctionType dilation_w_factor:int32=1 dilation_h_factor:int32=1
ConcatEmbeddingsOptions | CONCAT_EMBEDDINGS | num_channels:int32 num_columns_per_channel:[int32]
  embedding_dim_per_channel:[int32]
LSHProjectionOptions | LSH_PROJECTION | type:LSHProjectionType
Pool2DOptions | AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D | padding:Padding stride_w:int32 stride_h:int32
  filter_width:int32 filter_height:int32 fused_activation_function:ActivationFunctionType
SVDFOptions | SVDF | rank:int32 fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
RNNOptions | RNN | fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool
FullyConnectedOptions | FULLY_CONNECTED | fused_activation_function:ActivationFunctionType
  weights_format:FullyConnectedOptionsWeightsFormat keep_num_dims:bool asymmetric_quantize_inputs:bool
  quantized_bias_type:TensorType quant_spec:[uint8]
SoftmaxOptions | SOFTMAX | beta:float32
ConcatenationOptions | CONCATENATION | axis:int32 fused_activation_function:ActivationFunctionType
AddOptions | ADD | fused_activation_function:ActivationFunctionType pot_scale_int16:bool=true
L2NormOptions | L2_NORMALIZATION | fused_activation_function:ActivationFunctionType
LocalResponseNormalizationOptions | LOCAL_RESPONSE_NORMALIZATION | radius:int32 bias:float32 alpha:float32
  beta:float32
LSTMOptions | LSTM | fused_activation_function:ActivationFunctionType cell_clip:float32 proj_clip:float32
  kernel_type:LSTMKernelType asymmetric_quantize_inputs:bool
ResizeBilinearOptions | RESIZE_BILINEAR | _ _ align_corners:bool half_pixel_centers:bool
CallOptions | CALL | subgraph:uint32
ReshapeOptions | RESHAPE | new_shape:[int32]
SkipGramOptions | SKIP_GRAM | ngram_size:int32 max_skip_size:int32 include_all_ngrams:bool
SpaceToDepthOptions | SPACE_TO_DEPTH | block_size:int32
EmbeddingLookupSparseOptions | EMBEDDING_LOOKUP_SPARSE | combiner:CombinerType
MulOptions | MUL | fused_activation_function:ActivationFunctionType
PadOptions | PAD |
GatherOptions | GATHER | axis:int32 batch_dims:int32
BatchToSpaceNDOptions | BATCH_TO_SPACE_ND |
SpaceToBatchNDOptions | SPACE_TO_BATCH_ND |
TransposeOptions | TRANSPOSE |
ReducerOptions | MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM | keep_dims:bool
SubOptions | SUB | fused_activation_function:ActivationFunctionType pot_scale_int16:bool=true
DivOptions | DIV | fused_activation_function:ActivationFunctionType
SqueezeOptions | SQUEEZE | squeeze_dims:[int32]
SequenceRNNOptions | UNIDIRECTIONAL_SEQUENCE_RNN | time_major:bool fused_activation_function:ActivationFunctionType
  asymmetric_quantize_inputs:bool
StridedSliceOptions | STRIDED_SLICE | begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32
  shrink_axis_mask:int32 offset:bool
ExpOptions | EXP |
TopKV2Options | TOPK_V2 |
SplitOptions | SPLIT | num_splits:int32
LogSoftmaxOptions | LOG_SOFTMAX |
CastOptions | CAST | in_data_type:TensorType out_data_type:TensorType
DequantizeOptions | DEQUANTIZE |
MaximumMinimumOptions | MAXIMUM MINIMUM |
ArgMaxOptions | ARG_MAX | output_type:TensorType
LessOptions | LESS |
NegOptions | NEG |
PadV2Options | PADV2 |
GreaterOptions | GREATER |
GreaterEqualOptions | GREATER_EQUAL |
LessEqualOptions | LESS_EQUAL |
SelectOptions | SELECT |
SliceOptions | SLICE |
TransposeConvOptions | TRANSPOSE_CONV | padding:Padding stride_w:int32 stride_h:int32
  fused_activation_function:ActivationFunctionType quantized_bias_type:TensorType
SparseToDenseOptions | SPARSE_TO_DENSE | validate_indices:bool
TileOptions | TILE |
ExpandDimsOptions | EXPAND_DIMS |
EqualOptions | EQUAL |
NotEqualOptions | NOT_EQUAL |
ShapeOptions | SHAPE | out_type:TensorType
PowOptions | POW |
ArgMinOptions | ARG_MIN | output_type:TensorType
FakeQuantOptions | FAKE_QUANT | min:float32 max:float32 num_bits:int32 narrow_range:bool
PackOptions | PACK | values_count:int32 axis:int32
LogicalOrOptions | LOGICAL_OR |
OneHotOptions | ONE_HOT | axis:int32
LogicalAndOptions | LOGICAL_AND |
LogicalNotOptions | LOGICAL_NOT |
UnpackOptions | UNPACK | num:int32 axis:int32
FloorDivOptions | FLOOR_DIV |
SquareOptions | SQUARE |
ZerosLikeOptions | ZEROS_LIKE |
FillOptions | FILL |
BidirectionalSequenceLSTMOptions | BIDIRECTIONAL_SEQUENCE_LSTM | fused_activation_function:ActivationFunctionType
  cell_clip:float32 proj_clip:float32 merge_outputs:bool time_major:bool=true asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions | BIDIRECTIONAL_SEQUENCE_RNN | time_major:bool
  fused_activation_function:ActivationFunctionType merge_outputs:bool asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions | UNIDIRECTIONAL_SEQUENCE_LSTM | fused_activation_function:ActivationFunctionType
  cell_clip:float32 proj_clip:float32 time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
FloorModOptions | FLOOR_MOD |
RangeOptions | RANGE |
ResizeNearestNeighborOptions | RESIZE_NEAREST_NEIGHBOR | align_corners:bool half_pixel_centers:bool
LeakyReluOptions | LEAKY_RELU | alpha:float32
SquaredDifferenceOptions | SQUARED_DIFFERENCE |
MirrorPadOptions | MIRROR_PAD | mode:MirrorPadMode
AbsOptions | ABS |
SplitVOptions | SPLIT_V | num_splits:int32
UniqueOptions | UNIQUE | idx_out_type:TensorType=INT32
ReverseV2Options | REVERSE_V2 |
AddNOptions | ADD_N |
GatherNdOptions | GATHER_ND |
CosOptions | COS |
WhereOptions | WHERE |
RankOptions | RANK |
ReverseSequenceOptions | REVERSE_SEQUENCE | seq_dim:int32 batch_dim:int32
MatrixDiagOptions | MATRIX_DIAG |
QuantizeOptions | QUANTIZE |
MatrixSetDiagOptions | MATRIX_SET_DIAG |
HardSwishOptions | HARD_SWISH |
IfOptions | IF | then_subgraph_index:int32 else_subgraph_index:int32
WhileOptions | WHILE | cond_subgraph_index:int32 body_subgraph_index:int32
DepthToSpaceOptions | DEPTH_TO_SPACE | block_size:int32
NonMaxSuppressionV4Options | NON_MAX_SUPPRESSION_V4 |
NonMaxSuppressionV5Options | NON_MAX_SUPPRESSION_V5 |
ScatterNdOptions | SCATTER_ND |
SelectV2Options | SELECT_V2 |
DensifyOptions | DENSIFY |
SegmentSumOptions | SEGMENT_SUM |
BatchMatMulOptions | BATCH_MATMUL | adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions | CUMSUM | exclusive:bool reverse:bool
CallOnceOptions | CALL_ONCE | init_subgraph_index:int32
BroadcastToOptions | BROADCAST_TO |
Rfft2dOptions | RFFT2D |
Conv3DOptions | CONV_3D CONV_3D_TRANSPOSE | padding:Padding stride_d:int32 stride_w:int32 stride_h:int32
  fused_activation_function:ActivationFunctionType dilation_d_factor:int32=1 dilation_w_factor:int32=1
  dilation_h_factor:int32=1
HashtableOptions | HASHTABLE | table_id:int32 key_dtype:TensorType value_dtype:TensorType
HashtableFindOptions | HASHTABLE_FIND |
HashtableImportOptions | HASHTABLE_IMPORT |
HashtableSizeOptions | HASHTABLE_SIZE |
VarHandleOptions | VAR_HANDLE | container:string shared_name:string
ReadVariableOptions | READ_VARIABLE |
AssignVariableOptions | ASSIGN_VARIABLE |
RandomOptions | MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM | seed:int64 seed2:int64
BucketizeOptions | BUCKETIZE | boundaries:[float32]
GeluOptions | GELU | approximate:bool
DynamicUpdateSliceOptions | DYNAMIC_UPDATE_SLICE |
UnsortedSegmentProdOptions | UNSORTED_SEGMENT_PROD |
UnsortedSegmentMaxOptions | UNSORTED_SEGMENT_MAX |
UnsortedSegmentMinOptions | UNSORTED_SEGMENT_MIN |
UnsortedSegmentSumOptions | UNSORTED_SEGMENT_SUM |
ATan2Options | ATAN2 |
SignOptions | SIGN |
BitcastOptions | BITCAST |
BitwiseXorOptions | BITWISE_XOR |
RightShiftOptions | RIGHT_SHIFT |
"""

#: The union BuiltinOptions2.
OPTIONS_2 = """
StablehloConcatenateOptions | STABLEHLO_CONCATENATE | dimension:int64
StablehloBroadcastInDimOptions | STABLEHLO_BROADCAST_IN_DIM | broadcast_dimensions:[int64]
StablehloSliceOptions | STABLEHLO_SLICE | start_indices:[int64] limit_indices:[int64] strides:[int64]
StablehloConvolutionOptions | STABLEHLO_CONVOLUTION | window_strides:[int64] padding:[int64] lhs_dilation:[int64]
  rhs_dilation:[int64] window_reversal:[bool] input_batch_dimension:int64 input_feature_dimension:int64
  input_spatial_dimensions:[int64] kernel_input_feature_dimension:int64 kernel_output_feature_dimension:int64
  kernel_spatial_dimensions:[int64] output_batch_dimension:int64 output_feature_dimension:int64
  output_spatial_dimensions:[int64] feature_group_count:int64 batch_group_count:int64
  precision_config:[StablehloPrecisionConfig]
StablehloCustomCallOptions | STABLEHLO_CUSTOM_CALL | call_target_name:string has_side_effect:bool
  backend_config:string api_version:int32 called_computations:[int32] custom_attributes:[uint8]
StablehloReduceOptions | STABLEHLO_REDUCE | dimensions:[int64] body_subgraph_index:int32
StablehloScatterOptions | STABLEHLO_SCATTER | indices_are_sorted:bool update_window_dims:[int64]
  inserted_window_dims:[int64] scatter_dims_to_operand_dims:[int64] index_vector_dim:int64 unique_indices:bool
  update_computation_subgraph_index:int32
StablehloCompareOptions | STABLEHLO_COMPARE | comparison_direction:StablehloComparisonDirection
  compare_type:StablehloComparisonType
StablehloDynamicSliceOptions | STABLEHLO_DYNAMIC_SLICE | slice_sizes:[int64]
StablehloPadOptions | STABLEHLO_PAD | edge_padding_low:[int64] edge_padding_high:[int64] interior_padding:[int64]
StablehloIotaOptions | STABLEHLO_IOTA | iota_dimension:int64
StablehloDotGeneralOptions | STABLEHLO_DOT_GENERAL | lhs_batching_dimensions:[int64] rhs_batching_dimensions:[int64]
  lhs_contracting_dimensions:[int64] rhs_contracting_dimensions:[int64] precision_config:[StablehloPrecisionConfig]
StablehloReduceWindowOptions | STABLEHLO_REDUCE_WINDOW | window_dimensions:[int64] window_strides:[int64]
  base_dilations:[int64] window_dilations:[int64] padding:[int64] body_subgraph_index:int32
StablehloSortOptions | STABLEHLO_SORT | dimension:int64 is_stable:bool comparator_subgraph_index:int32
StablehloWhileOptions | STABLEHLO_WHILE | cond_subgraph_index:int32 body_subgraph_index:int32
StablehloGatherOptions | STABLEHLO_GATHER | offset_dims:[int64] collapsed_slice_dims:[int64] start_index_map:[int64]
  index_vector_dim:int64 slice_sizes:[int64] indices_are_sorted:bool
StablehloTransposeOptions | STABLEHLO_TRANSPOSE | permutation:[int64]
DilateOptions | DILATE |
StablehloRngBitGeneratorOptions | STABLEHLO_RNG_BIT_GENERATOR | algorithm:RngAlgorithm
ReduceWindowOptions | REDUCE_WINDOW | reduce_function:ReduceWindowFunction
StableHLOCompositeOptions | STABLEHLO_COMPOSITE | name:string decomposition_subgraph_index:int32
  composite_attributes:[uint8] composite_attributes_format:CustomOptionsFormat version:int32
StablehloShiftLeftOptions | STABLEHLO_SHIFT_LEFT |
StablehloCaseOptions | STABLEHLO_CASE | branch_subgraph_indices:[int32]
"""
