"""XlaBuilder's products of matrices, convolutions, factorisations, transforms and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import VerifyError
from ..hlo.attrs import ConvolutionDimensionNumbers, DotDimensionNumbers, TriangularSolveOptions, Window
from ..hlo.infer import brief
from ..hlo.ir import Instruction
from .core import Core, Padding, Precision, precision


def default_convolution_dimensions(spatial: int) -> ConvolutionDimensionNumbers:
    """Input (batch, feature, spatial...), kernel (output feature, input feature, spatial...), output as the input."""
    rest = tuple(range(2, spatial + 2))
    return ConvolutionDimensionNumbers(0, 1, rest, 1, 0, rest, 0, 1, rest)


class Products(Core):
    """Linear algebra."""

    def Dot(
        self,
        lhs: Instruction,
        rhs: Instruction,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
    ) -> Instruction:
        """Sums of products over the last dimension of the left and the first of the right operand, vectors or matrices.

        >>> b.Dot(b.Constant([1, 2, 3]), b.Constant([4, 5, 6]))
        f32[] 32.0
        >>> b.Dot(b.Constant([[1, 2], [3, 4]]), b.Constant([5, 6]))
        f32[2] [17.0, 39.0]
        """
        a, c = self._array("dot", lhs), self._array("dot", rhs)
        if not a.rank or not c.rank:
            raise VerifyError(
                f"dot: {brief(a)} and {brief(c)}: the operands must have dimensions; Mul multiplies by a scalar"
            )
        return self.DotGeneral(
            lhs, rhs, DotDimensionNumbers((a.rank - 1,), (0,)), precision_config, preferred_element_type
        )

    def DotGeneral(
        self,
        lhs: Instruction,
        rhs: Instruction,
        dimension_numbers: DotDimensionNumbers,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
    ) -> Instruction:
        """Sums of products over the contracting dimensions: batch dimensions, then free ones of the left, then of the
        right.

        >>> numbers = DotDimensionNumbers((1,), (1,))
        >>> b.DotGeneral(b.Constant([[1, 2, 3], [4, 5, 6]]), b.Constant([[1, 1, 1], [2, 2, 2]]), numbers)
        f32[2,2] [[6.0, 12.0], [15.0, 30.0]]
        >>> numbers = DotDimensionNumbers((2,), (1,), (0,), (0,))
        >>> b.DotGeneral(b.Constant([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), b.Constant([[[1, 0], [0, 1]], [[1, 0], [0, 1]]]), numbers)
        f32[2,2,2] [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
        """  # noqa: E501
        attrs = {"dot_dimension_numbers": dimension_numbers, "precision_config": precision(precision_config)}
        return self._typed("dot", lhs, rhs, element_type=preferred_element_type, **attrs)

    def ScaledDot(
        self,
        lhs: Instruction,
        lhs_scale: Instruction,
        rhs: Instruction,
        rhs_scale: Instruction,
        dimension_number: DotDimensionNumbers,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
    ) -> Instruction:
        """A dot of operands in blocks, each of which has a scale."""
        attrs = {"dot_dimension_numbers": dimension_number, "precision_config": precision(precision_config)}
        return self._typed("scaled-dot", lhs, rhs, lhs_scale, rhs_scale, element_type=preferred_element_type, **attrs)

    def Conv(
        self,
        lhs: Instruction,
        rhs: Instruction,
        window_strides: Sequence[int] | None,
        padding: Padding,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
    ) -> Instruction:
        """Sums of products of a kernel with the input under it, at every place of the kernel, which is not flipped.

        The input is (batch, feature, spatial...), the kernel (output feature, input feature, spatial...), the output as
        the input.

        >>> b.Conv(b.Constant([[[1, 2, 3, 4]]]), b.Constant([[[1, 10]]]), (1,), "VALID")
        f32[1,1,3] [[[21.0, 32.0, 43.0]]]
        >>> b.Conv(b.Constant([[[1, 2, 3, 4]]]), b.Constant([[[1, 10]]]), (1,), "SAME")
        f32[1,1,4] [[[21.0, 32.0, 43.0, 4.0]]]
        """
        counts = (feature_group_count, batch_group_count)
        return self.ConvGeneral(
            lhs, rhs, window_strides, padding, None, *counts, precision_config, preferred_element_type
        )

    def ConvWithGeneralPadding(
        self,
        lhs: Instruction,
        rhs: Instruction,
        window_strides: Sequence[int] | None,
        padding: Padding,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
    ) -> Instruction:
        """As Conv, with padding in pairs; negative padding cuts the input.

        >>> b.ConvWithGeneralPadding(b.Constant([[[1, 2, 3, 4]]]), b.Constant([[[1, 10]]]), (1,), [(1, -1)])
        f32[1,1,3] [[[10.0, 21.0, 32.0]]]
        """
        counts = (feature_group_count, batch_group_count)
        return self.ConvGeneral(
            lhs, rhs, window_strides, padding, None, *counts, precision_config, preferred_element_type
        )

    def ConvWithGeneralDimensions(
        self,
        lhs: Instruction,
        rhs: Instruction,
        window_strides: Sequence[int] | None,
        padding: Padding,
        dimension_numbers: ConvolutionDimensionNumbers,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
    ) -> Instruction:
        """As Conv, with dimensions in any order.

        >>> last = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
        >>> b.ConvWithGeneralDimensions(b.Constant([[[1], [2], [3]]]), b.Constant([[[1]], [[10]]]), (1,), "VALID", last)
        f32[1,2,1] [[[21.0], [32.0]]]
        """
        counts = (feature_group_count, batch_group_count)
        return self.ConvGeneral(
            lhs, rhs, window_strides, padding, dimension_numbers, *counts, precision_config, preferred_element_type
        )

    def ConvGeneral(
        self,
        lhs: Instruction,
        rhs: Instruction,
        window_strides: Sequence[int] | None,
        padding: Padding,
        dimension_numbers: ConvolutionDimensionNumbers | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
    ) -> Instruction:
        """As Conv, with dimensions in any order and padding in pairs.

        >>> last = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
        >>> b.ConvGeneral(b.Constant([[[1], [2], [3]]]), b.Constant([[[1]], [[10]]]), (2,), [(1, 0)], last)
        f32[1,2,1] [[[10.0], [32.0]]]
        """
        rest = (dimension_numbers, feature_group_count, batch_group_count, precision_config, preferred_element_type)
        return self.ConvGeneralDilated(lhs, rhs, window_strides, padding, None, None, *rest)

    def ConvGeneralDilated(
        self,
        lhs: Instruction,
        rhs: Instruction,
        window_strides: Sequence[int] | None,
        padding: Padding,
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        dimension_numbers: ConvolutionDimensionNumbers | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision_config: Precision = None,
        preferred_element_type: str | None = None,
        window_reversal: Sequence[bool] | None = None,
    ) -> Instruction:
        """As ConvGeneral, with holes in the input (a transposed convolution) or in the kernel, and kernels flipped.

        >>> x, kernel = b.Constant([[[1, 2, 3]]]), b.Constant([[[1, 10]]])
        >>> b.ConvGeneralDilated(x, kernel, (1,), "VALID", lhs_dilation=(2,))
        f32[1,1,4] [[[1.0, 20.0, 2.0, 30.0]]]
        >>> b.ConvGeneralDilated(x, kernel, (1,), "VALID", rhs_dilation=(2,))
        f32[1,1,1] [[[31.0]]]
        >>> b.ConvGeneralDilated(x, kernel, (1,), "VALID", window_reversal=(True,))
        f32[1,1,2] [[[12.0, 23.0]]]
        """
        x, kernel = self._array("convolution", lhs), self._array("convolution", rhs)
        numbers = dimension_numbers or default_convolution_dimensions(x.rank - 2)
        places, taps = numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions
        if (
            any(not 0 <= d < x.rank for d in places)
            or any(not 0 <= d < kernel.rank for d in taps)
            or len(places) != len(taps)
        ):
            raise VerifyError(
                f"convolution: the spatial dimensions {places} and {taps} do not fit {brief(x)} and {brief(kernel)}"
            )
        base, sizes = [x.dimensions[d] for d in places], [kernel.dimensions[d] for d in taps]
        window = self._window(
            "convolution", base, sizes, window_strides, padding, lhs_dilation, rhs_dilation, window_reversal
        )
        return self._typed(
            "convolution",
            lhs,
            rhs,
            element_type=preferred_element_type,
            window=Window(window),
            dim_labels=numbers,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            precision_config=precision(precision_config),
        )

    def Cholesky(self, a: Instruction, lower: bool) -> Instruction:
        """The triangular factor of positive definite matrices, from one triangle of them.

        >>> b.Cholesky(b.Constant([[4, 0], [6, 13]]), lower=True)
        f32[2,2] [[2.0, 0.0], [3.0, 2.0]]
        """
        return self.op("cholesky", a, lower=lower)

    def TriangularSolve(
        self,
        a: Instruction,
        b: Instruction,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: str = "NO_TRANSPOSE",
    ) -> Instruction:
        """The x for which op(a) x = b (or x op(a) = b); op is NO_TRANSPOSE, TRANSPOSE or ADJOINT.

        >>> b.TriangularSolve(b.Constant([[2, 0], [3, 4]]), b.Constant([[2], [11]]), True, True, False)
        f32[2,1] [[1.0], [2.0]]
        """
        options = TriangularSolveOptions(left_side, lower, unit_diagonal, transpose_a)
        return self.op("triangular-solve", a, b, triangular_solve_options=options)

    def Fft(self, operand: Instruction, fft_type: str, fft_length: Sequence[int]) -> Instruction:
        """The Fourier transform (FFT, IFFT, RFFT, IRFFT) of the last dimensions.

        >>> b.Fft(b.Constant([1, 2, 3, 4]), "RFFT", (4,))
        c64[3] [(10+0j), (-2+2j), (-2+0j)]
        """
        return self.op("fft", operand, fft_type=fft_type, fft_length=tuple(fft_length))

    def BatchNormTraining(
        self, operand: Instruction, scale: Instruction, offset: Instruction, epsilon: float, feature_index: int
    ) -> Instruction:
        """(output, batch_mean, batch_var): each feature normalised, scaled and shifted; the variance is the biased one.

        >>> x = b.Constant([[1, 4], [3, 8]])
        >>> b.BatchNormTraining(x, b.Constant([1, 10]), b.Constant([0, 1]), 0, 1)
        (f32[2,2] [[-1.0, -9.0], [1.0, 11.0]], f32[2] [2.0, 6.0], f32[2] [1.0, 4.0])
        """
        return self.op("batch-norm-training", operand, scale, offset, epsilon=epsilon, feature_index=feature_index)

    def BatchNormInference(
        self,
        operand: Instruction,
        scale: Instruction,
        offset: Instruction,
        mean: Instruction,
        variance: Instruction,
        epsilon: float,
        feature_index: int,
    ) -> Instruction:
        """Each feature normalised by a given mean and variance, scaled and shifted.

        >>> x, mean, variance = b.Constant([[1, 4], [3, 8]]), b.Constant([2, 6]), b.Constant([1, 4])
        >>> b.BatchNormInference(x, b.Constant([1, 10]), b.Constant([0, 1]), mean, variance, 0, 1)
        f32[2,2] [[-1.0, -9.0], [1.0, 11.0]]
        """
        operands = (operand, scale, offset, mean, variance)
        return self.op("batch-norm-inference", *operands, epsilon=epsilon, feature_index=feature_index)

    def BatchNormGrad(
        self,
        operand: Instruction,
        scale: Instruction,
        batch_mean: Instruction,
        batch_var: Instruction,
        grad_output: Instruction,
        epsilon: float,
        feature_index: int,
    ) -> Instruction:
        """(grad_operand, grad_scale, grad_offset): the gradients of BatchNormTraining.

        >>> x, mean, variance = b.Constant([[1], [3]]), b.Constant([2]), b.Constant([1])
        >>> b.BatchNormGrad(x, b.Constant([2]), mean, variance, b.Constant([[1], [4]]), 0, 1)
        (f32[2,1] [[0.0], [0.0]], f32[1] [3.0], f32[1] [5.0])
        """
        operands = (operand, scale, batch_mean, batch_var, grad_output)
        return self.op("batch-norm-grad", *operands, epsilon=epsilon, feature_index=feature_index)
