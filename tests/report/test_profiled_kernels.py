"""Names of kernels in tables of what a profiler saw."""

import pytest

from benchmarks.device_step import kernel_name


@pytest.mark.parametrize("signature, name", [
    ("void frugal::(anonymous namespace)::update_kernel<4>(float*, int)", "update_kernel"),
    ("frugal::(anonymous namespace)::gather_kernel(float*)", "gather_kernel"),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_ffma_execute_kernel", "gemm"),
    ("void (anonymous namespace)::softmax_warp_forward<float, 8, false>(float*, bool const*)", "softmax_warp_forward"),
    ("void at::native::elementwise_kernel<128, at::native::Op<float>>(int, at::native::Op<float>)",
     "elementwise_kernel"),
    ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
])
def test_a_kernel_has_its_own_name(signature, name):
    assert kernel_name(signature) == name
