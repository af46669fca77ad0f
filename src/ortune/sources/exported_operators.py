"""Operators that a ``.pt2`` file may call: they compute tensors from tensors and numbers, without other access.

The list contains PyTorch's own operators (``aten``) that run forward on the CPU and return tensors, or sizes and truth
values of tensors. None interprets a text argument (a mode, an equation) as a file name. Each includes all its
overloads, and its in-place version.
"""

from __future__ import annotations

import re

_ATEN = """
__and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __upsample_bilinear
__upsample_nearest __xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d _add_relu _addmm_activation _aminmax
_assert_async _assert_scalar _assert_tensor_metadata _batch_norm_impl_index _batch_norm_no_update
_batch_norm_with_update _batch_norm_with_update_functional _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half
_cast_Int _cast_Long _cast_Short _cdist_forward _cholesky_solve_helper _chunk_cat _compute_linear_combination _conj
_conj_physical _conv_depthwise2d _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo
_convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu _convolution _convolution_mode _ctc_loss
_dirichlet_grad _efficient_attention_forward _efficientzerotensor _embedding_bag _embedding_bag_forward_only
_euclidean_dist _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
_fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fft_c2c _fft_c2r _fft_r2c _fill_mem_eff_dropout_mask
_flash_attention_forward _functional_assert_async _functional_assert_scalar _functional_sym_constrain_range
_functional_sym_constrain_range_for_size _fused_dropout _fused_rms_norm _grad_sum_to_size
_grid_sampler_2d_cpu_fallback _grouped_mm _histogramdd_bin_edges _histogramdd_from_bin_cts
_histogramdd_from_bin_tensors _index_put_impl _int_mm _is_all_true _is_any_true _linalg_det _linalg_eigh
_linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _list_to_tensor _local_scalar_dense _log_softmax
_logcumsumexp _lu_with_info _masked_scale _masked_softmax _native_batch_norm_legit
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _native_multi_head_attention _ncf_unsqueeze
_ncf_view _neg_view _no_grad_embedding_renorm _no_grad_fill _no_grad_normal _no_grad_uniform _no_grad_zero
_pack_padded_sequence _pack_sequence _pad_circular _pad_enum _pad_packed_sequence _pdist_forward _prelu_kernel
_reshape_alias _reshape_from_tensor _rowwise_prune _safe_softmax _sample_dirichlet
_scaled_dot_product_attention_math _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_for_cpu _scaled_grouped_mm _scaled_grouped_mm_v2 _scaled_mm _scaled_mm_v2
_shape_as_tensor _slow_conv2d_forward _sobol_engine_draw _sobol_engine_ff _sobol_engine_initialize_state
_sobol_engine_scramble _softmax _stack _standard_gamma _standard_gamma_grad _to_copy _to_cpu _to_dense
_transform_bias_rescale_qkv _transformer_encoder_layer_fwd _trilinear _unique _unique2 _unsafe_index
_unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa
_upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
_upsample_nearest_exact3d _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros
_weight_int8pack_mm _weight_norm _weight_norm_interface abs absolute acos acosh adaptive_avg_pool1d
adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add addbmm
addcdiv addcmul addmm addmv addr adjoint affine_grid_generator alias alias_copy all allclose alpha_dropout amax amin
aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere
as_strided as_strided_copy as_strided_scatter as_tensor asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d
avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window batch_norm bernoulli bilinear binary_cross_entropy
binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize
cartesian_prod cat cauchy cdist ceil celu chain_matmul chalf channel_shuffle cholesky cholesky_inverse
cholesky_solve chunk clamp clamp_max clamp_min clip clone col2im column_stack combinations complex concat
concatenate conj conj_physical constant_pad_nd contiguous conv1d conv2d conv3d conv_depthwise3d conv_tbc
conv_transpose1d conv_transpose2d conv_transpose3d convolution copy copysign corrcoef cos cosh cosine_embedding_loss
cosine_similarity count_nonzero cov cpu cross cross_entropy_loss ctc_loss cummax cummin cumprod cumsum
cumulative_trapezoid deg2rad dequantize det detach detach_copy diag diag_embed diagflat diagonal diagonal_copy
diagonal_scatter diff digamma dim dist div divide dot dropout dsplit dstack einsum elu embedding embedding_bag
embedding_renorm empty empty_like empty_permuted empty_strided eq equal erf erfc erfinv exp exp2 expand expand_as
expand_copy expm1 exponential eye fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask
fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask feature_alpha_dropout feature_dropout
fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn
fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq
fft_rfftn fill fill_diagonal fix flatten flatten_dense_tensors flip fliplr flipud float_power floor floor_divide
fmax fmin fmod frac fractional_max_pool2d fractional_max_pool3d frexp frobenius_norm full full_like gather gcd ge
gelu geometric geqrf ger glu gradient greater greater_equal grid_sampler grid_sampler_2d grid_sampler_3d group_norm
gru gru_cell gt hamming_window hann_window hardshrink hardsigmoid hardswish hardtanh heaviside hinge_embedding_loss
histc histogram histogramdd hsplit hstack huber_loss hypot i0 igamma igammac im2col imag index index_add index_fill
index_put index_reduce index_select inner instance_norm inverse is_complex is_contiguous is_floating_point
is_nonzero is_same_size isclose isfinite isin isinf isnan isneginf isposinf isreal istft item kaiser_window kl_div
kron kthvalue l1_loss layer_norm lcm ldexp le leaky_relu lerp less less_equal lgamma lift lift_fresh lift_fresh_copy
linalg__powsum linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig
linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor
linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve
linalg_matmul linalg_matrix_exp linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot
linalg_norm linalg_pinv linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd
linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm linear linspace
log log10 log1p log2 log_normal log_sigmoid log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logdet
logical_and logical_not logical_or logical_xor logit logspace logsumexp lstm lstm_cell lt lu_solve lu_unpack mH mT
margin_ranking_loss masked_fill masked_scatter masked_select matmul matrix_H matrix_exp matrix_power max max_pool1d
max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d
max_unpool3d maximum mean median meshgrid min minimum mish mm mode moveaxis movedim mse_loss msort mul
multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward multinomial multiply mv mvlgamma nan_to_num
nanmean nanmedian nanquantile nansum narrow native_batch_norm native_channel_shuffle native_dropout
native_group_norm native_layer_norm native_norm ne neg negative nested_to_padded_tensor new_empty new_empty_strided
new_full new_ones new_zeros nextafter nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd nonzero
nonzero_numpy nonzero_static norm norm_except_dim normal normal_functional not_equal nuclear_norm numel numpy_T
one_hot ones ones_like orgqr ormqr outer pad pad_sequence pairwise_distance pdist permute permute_copy pinverse
pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma positive pow prelu prod put qr quantile
rad2deg rand rand_like randint randint_like randn randn_like random randperm range ravel real reciprocal
reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 remainder renorm repeat repeat_interleave
replication_pad1d replication_pad2d replication_pad3d reshape reshape_as resolve_conj resolve_neg rms_norm rnn_relu
rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round row_stack rrelu rrelu_with_noise rrelu_with_noise_functional
rsqrt rsub scalar_tensor scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted segment_reduce
select select_copy select_scatter selu sgn sigmoid sign signbit silu sin sinc sinh size slice slice_copy
slice_inverse slice_scatter slogdet slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d
slow_conv_transpose2d slow_conv_transpose3d smooth_l1_loss soft_margin_loss softmax softplus softshrink sort sorted
special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv
special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln
special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 special_i1e
special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p special_log_ndtr special_log_softmax
special_logit special_logsumexp special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma special_psi
special_round special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
special_shifted_chebyshev_polynomial_w special_sinc special_softmax special_spherical_bessel_j0 special_xlog1py
special_xlogy special_zeta split split_copy split_with_sizes split_with_sizes_copy sqrt square squeeze squeeze_copy
stack std std_mean stft storage_offset stride sub subtract sum sum_to_size svd swapaxes swapdims sym_constrain_range
sym_constrain_range_for_size sym_numel sym_size sym_storage_offset sym_stride t t_copy take take_along_dim tan tanh
tensor tensor_split tensordot thnn_conv2d threshold tile to to_dense to_padded_tensor topk trace transpose
transpose_copy trapezoid trapz triangular_solve tril tril_indices triplet_margin_loss triu triu_indices true_divide
trunc type_as unbind unbind_copy unflatten unflatten_dense_tensors unfold unfold_copy uniform unique_consecutive
unique_dim unique_dim_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy
upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
upsample_trilinear3d vander var var_mean vdot view view_as view_as_complex view_as_complex_copy view_as_real
view_as_real_copy view_copy vsplit vstack where xlogy zero zeros zeros_like
"""
_OTHERS = {
    "higher_order": "associative_scan cond flex_attention invoke_subgraph map_impl out_dtype scan while_loop "
    "wrap_with_autocast wrap_with_set_grad_enabled",
    "onnx_symbolic": "_symbolic _symbolic_multi_out",
    "prims": "abs acos acosh add amax amin asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor "
    "broadcast_in_dim cat ceil clone collapse convert_element_type cos cosh device_put div eq erf erfc exp exp2 expm1 "
    "fill floor fmod full gcd ge gt iota isfinite le lgamma log log10 log1p log2 lt maximum minimum mul ne neg "
    "nextafter pow reciprocal remainder reshape rev round rsqrt select sign signbit sin sinh slice sqrt squeeze sub "
    "sum tan tanh transpose trunc var view_of where",
    "quantized_decomposed": "choose_qparams choose_qparams_per_token choose_qparams_per_token_asymmetric "
    "dequantize_per_channel dequantize_per_channel_group dequantize_per_tensor dequantize_per_token "
    "quantize_per_channel quantize_per_channel_group quantize_per_tensor quantize_per_token",
    "torchao": "choose_qparams_affine dequantize_affine quantize_affine",
    "torchvision": "deform_conv2d nms ps_roi_align ps_roi_pool roi_align roi_pool",
}
_NAMES = {space: frozenset(names.split()) for space, names in {"aten": _ATEN, **_OTHERS}.items()}
_FUNCTIONS = re.compile(
    r"_operator\.(abs|add|and_|eq|floordiv|ge|getitem|gt|inv|invert|le|lshift|lt|mod|mul|ne|neg|not_|or_|pos|pow|rshift|"
    r"sub|truediv|xor)"
    r"|math\.(acos|asin|atan|atan2|ceil|cos|cosh|exp|floor|log|log2|pow|sin|sinh|sqrt|tan|tanh|trunc)"
    r"|torch\.sym_(float|int|ite|max|min|not|sum)|torch\._sym_[a-z]\w*",
    re.ASCII,
)
_OPERATOR = re.compile(r"torch\.ops\.([a-z]\w*)\.(\w+)(\.[A-Za-z]\w*)?", re.ASCII)
_OF_ONNX = "onnx"
"""Namespace of ONNX's operators, which PyTorch provides for exporting."""


def is_allowed(target: str) -> bool:
    """Return whether a node may call a target, written as in a program: ``torch.ops.aten.add.Tensor``."""
    named = _OPERATOR.fullmatch(target)
    if named is None:
        return _FUNCTIONS.fullmatch(target) is not None
    space, name = named[1], named[2]
    if space == _OF_ONNX:
        return True
    in_place = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return bool({name, in_place} & _NAMES.get(space, frozenset()))
