"""The U-Nets: any size, every parameter in use, arms where they belong, and they learn."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from diffts.diffusion.networks import NETWORKS, build_denoiser
from diffts.diffusion.networks.convolution import convolve
from diffts.diffusion.networks.unet1d import UNet1d
from diffts.diffusion.networks.unet2d import UNet2d
from diffts.diffusion.networks.unet_parts import GroupNorm, SelfAttention, double, halve
from diffts.diffusion.schedule import Schedule
from diffts.errors import InvalidInputError

KEY = jax.random.key(0)
STEP = jnp.int32(7)
SMALL = {"channels": [8, 8], "embedding_size": 8, "key": KEY}

apply = eqx.filter_jit(lambda network, x, step=STEP: network(x, step))
apply_batch = eqx.filter_jit(lambda network, x, steps: jax.vmap(network)(x, steps))
evaluate_batch = eqx.filter_jit(lambda network, x, steps: jax.vmap(network.evaluate)(x, steps))


def small_1d(n_arms):
    return UNet1d(n_arms, **SMALL)


def small_2d(height, width, **options):
    n_arms = len(options["pixels"]) if "pixels" in options else height * width
    return UNet2d(n_arms, height=height, width=width, **SMALL, **options)


def normal(*shape, seed=1):
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.fixture(scope="module", params=["1d", "2d"])
def network(request):
    return small_1d(21) if request.param == "1d" else small_2d(7, 5)


# Shapes


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [300, 301, 1])
def test_1d_takes_any_length(n_arms):
    network = UNet1d(n_arms, **{**SMALL, "channels": [8, 8, 8]})
    output = apply(network, normal(n_arms))
    assert output.shape == (n_arms,)
    assert output.dtype == jnp.float32
    assert jnp.isfinite(output).all()


@pytest.mark.slow
@pytest.mark.parametrize(("height", "width"), [(20, 20), (7, 5), (1, 3)])
def test_2d_takes_any_size(height, width):
    options = {**SMALL, "channels": [8, 8, 8]}
    network = UNet2d(height * width, height=height, width=width, **options)
    output = apply(network, normal(height * width))
    assert output.shape == (height * width,)
    assert output.dtype == jnp.float32
    assert jnp.isfinite(output).all()


def test_the_default_widths_are_the_papers():
    def widths(network):
        levels = (*network.body.down, network.body.bottom)
        return [level.blocks[0].second.weight.shape[-1] for level in levels]

    assert widths(eqx.filter_eval_shape(UNet1d, 300, key=KEY)) == [16, 32, 64]
    square = eqx.filter_eval_shape(UNet2d, 400, height=20, width=20, key=KEY)
    assert widths(square) == [32, 64, 128]


def test_one_resolution_is_enough():
    network = UNet1d(9, channels=(8,), embedding_size=8, key=KEY)
    assert apply(network, normal(9)).shape == (9,)


@pytest.mark.parametrize(
    "options",
    [{"channels": []}, {"channels": [4, 0]}, {"embedding_size": 7}, {"embedding_size": 2}],
)
def test_bad_sizes_are_refused(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        UNet1d(9, **options, key=KEY)


# What holds for both


def test_output_depends_on_the_step(network):
    x = normal(network.n_arms)
    first, second, last = (apply(network, x, jnp.int32(step)) for step in (1, 2, 100))
    assert jnp.abs(first - second).max() > 1e-5
    assert jnp.abs(second - last).max() > 1e-5


@pytest.mark.slow
def test_gradient_reaches_every_parameter(network):
    x = normal(4, network.n_arms)
    steps = jnp.array([1, 20, 50, 100])

    def loss(network):
        return jnp.mean((jax.vmap(network)(x, steps) - x[::-1]) ** 2)

    gradient = eqx.filter_jit(eqx.filter_grad(loss))(network)
    largest = {
        jax.tree_util.keystr(path): float(jnp.abs(leaf).max())
        for path, leaf in jax.tree_util.tree_leaves_with_path(gradient)
    }
    assert len(largest) == len(jax.tree.leaves(eqx.filter(network, eqx.is_array)))
    # A dead parameter would have what rounding leaves: less than 1e-8.
    assert {name: size for name, size in largest.items() if not size > 1e-6} == {}


def test_a_batch_is_its_rows(network):
    x, steps = normal(2, network.n_arms), jnp.array([20, 50])
    rows = jnp.stack([apply(network, row, step) for row, step in zip(x, steps, strict=True)])
    np.testing.assert_allclose(apply_batch(network, x, steps), rows, atol=1e-5)


@pytest.mark.slow
def test_directional_derivative_is_the_slope(network):
    x, r = normal(network.n_arms), normal(network.n_arms, seed=2)
    _, derivative = eqx.filter_jit(eqx.filter_jvp)(lambda x: network(x, STEP), (x,), (r,))
    slope = (apply(network, x + 0.01 * r) - apply(network, x - 0.01 * r)) / 0.02
    np.testing.assert_allclose(derivative, slope, atol=0.01 * float(jnp.abs(slope).max()))


# What each sees


def test_1d_moves_with_its_input():
    # Far from the edges, by the stride of the coarsest resolution.
    bump = jnp.zeros(400).at[195:205].set(3.0)
    here, there = (apply(small_1d(400), x) for x in (bump, jnp.roll(bump, 4)))
    np.testing.assert_allclose(jnp.roll(here, 4)[100:300], there[100:300], atol=1e-4)
    assert jnp.abs(here - there)[100:300].max() > 1e-2


@pytest.mark.slow
def test_1d_looks_near_first():
    network = small_1d(400)
    slope = jnp.abs(jax.grad(lambda x: apply(network, x)[200])(normal(400)))
    assert slope[190:211].mean() > 10 * slope[:100].mean()


@pytest.mark.parametrize("offset", [0.0, -1000.0])
def test_group_norm_holds_far_from_zero(offset):
    h = offset + normal(5, 6, 32)
    groups = np.asarray(h, np.float64).reshape(30, 8, 4)
    mean, std = groups.mean(axis=(0, 2), keepdims=True), groups.std(axis=(0, 2), keepdims=True)
    normed = ((groups - mean) / std).reshape(5, 6, 32)
    np.testing.assert_allclose(GroupNorm(32)(h), normed, atol=1e-4)


def test_attention_is_softmax_attention():
    attention = SelfAttention(2, 8, key=KEY)
    h = normal(3, 4, 8)
    query, key, value = np.split(
        np.asarray(attention.norm(h), np.float64).reshape(12, 8)
        @ np.asarray(attention.read.weight, np.float64).reshape(8, 24),
        3,
        axis=1,
    )
    weight = np.exp(query @ key.T / np.sqrt(8))
    weight /= weight.sum(axis=1, keepdims=True)
    change = weight @ value @ np.asarray(attention.write.weight, np.float64).reshape(8, 8)
    np.testing.assert_allclose(attention(h) - h, change.reshape(3, 4, 8), atol=1e-6)


# Arms on some of the pixels


def test_all_pixels_in_order_is_the_plain_network():
    x = normal(35)
    placed = apply(small_2d(7, 5, pixels=range(35)), x)
    np.testing.assert_allclose(placed, apply(small_2d(7, 5), x), atol=1e-6)


def test_each_arm_is_at_its_pixel():
    x, order = normal(35), np.random.default_rng(0).permutation(35)
    image = np.empty(35, np.float32)
    image[order] = x
    expected = apply(small_2d(7, 5), jnp.asarray(image))[order]
    shuffled = apply(small_2d(7, 5, pixels=order.tolist()), x)
    np.testing.assert_allclose(shuffled, expected, atol=1e-6)


def test_other_pixels_are_zero():
    x, pixels = normal(3), [30, 2, 17]
    image = np.zeros(35, np.float32)
    image[pixels] = x
    expected = apply(small_2d(7, 5), jnp.asarray(image))[np.array(pixels)]
    some = apply(small_2d(7, 5, pixels=pixels), x)
    np.testing.assert_allclose(some, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("n_arms", "options", "named"),
    [
        (34, {}, "n_arms"),
        (35, {"height": 0}, "height"),
        (35, {"width": 2.5}, "width"),
        (2, {"pixels": [1, 1]}, "pixels"),
        (2, {"pixels": [0, 35]}, "pixels"),
        (2, {"pixels": [0, -1]}, "pixels"),
        (2, {"pixels": [0, 0.5]}, "pixels"),
        (2, {"pixels": [0]}, "pixels"),
    ],
)
def test_bad_layouts_are_refused(n_arms, options, named):
    with pytest.raises(InvalidInputError, match=named):
        UNet2d(n_arms, **{"height": 7, "width": 5, **SMALL, **options})


# The convolution


def test_halve_and_double_are_inverse():
    image = jnp.arange(4 * 6 * 3).reshape(4, 6, 3)
    cells = halve(image)
    assert cells.shape == (2, 3, 12)
    assert cells[1, 2, :3].tolist() == image[2, 4].tolist()
    assert cells[1, 2, -3:].tolist() == image[3, 5].tolist()
    np.testing.assert_array_equal(double(cells), image)


def jax_convolve(x, weight):
    axes = "HW"[-(x.ndim - 2) :]
    labels = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    ones = (1,) * len(axes)
    return jax.lax.conv_general_dilated(x, weight, ones, "SAME", dimension_numbers=labels)


@pytest.mark.parametrize("n_axes", [1, 2])
def test_convolution_and_its_derivatives_are_those_of_jax(n_axes):
    x = normal(2, *(7, 4)[:n_axes], 3)
    weight = normal(*(5, 3)[:n_axes], 3, 3, seed=2)
    r = normal(*x.shape, seed=3)

    def all_of(convolve):
        def loss(x, weight):
            return jnp.sum(jnp.sin(convolve(jnp.tanh(convolve(x, weight)), weight)))

        def penalty(x, weight):  # reverse over forward, as in training from imperfect data
            return jax.jvp(lambda x: loss(x, weight), (x,), (r,))[1]

        def steepness(x, weight):  # reverse over reverse
            return sum(jnp.sum(g**2) for g in jax.grad(loss, argnums=(0, 1))(x, weight))

        def outputs(x, weight):
            weights = jnp.stack([weight, -weight], axis=-1)
            return (
                convolve(x, weight),
                [jax.grad(f, argnums=(0, 1))(x, weight) for f in (loss, penalty, steepness)],
                # With an input or a weight for each.
                jax.vmap(lambda x: jax.grad(loss, argnums=1)(x[None], weight))(x),
                jax.vmap(jax.grad(loss, argnums=(0, 1)), in_axes=(None, -1))(x, weights),
            )

        return jax.tree.leaves(jax.jit(outputs)(x, weight))

    for mine, theirs in zip(all_of(convolve), all_of(jax_convolve), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4 * jnp.abs(theirs).max())


def test_convolution_works_outside_of_jit():
    x, weight = normal(1, 6, 1), jnp.array([1.0, 0.0, -1.0]).reshape(3, 1, 1)
    padded = np.pad(np.ravel(x), 1)
    np.testing.assert_allclose(np.ravel(convolve(x, weight)), padded[:-2] - padded[2:])
    gradient = jax.grad(lambda weight: convolve(x, weight).sum())(weight)
    sums = [padded[:-2].sum(), padded[1:-1].sum(), padded[2:].sum()]
    np.testing.assert_allclose(np.ravel(gradient), sums, atol=1e-6)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="XLA for the CPU only")
@pytest.mark.parametrize("n_axes", [1, 2])
def test_training_in_a_loop_convolves_in_the_fast_layout(n_axes):
    # Any other layout would run in XLA's naive code: some ten times slower, but no error.
    x, r = normal(2, *(7, 5)[:n_axes], 3), normal(2, *(7, 5)[:n_axes], 3, seed=2)

    def loss(weight):
        output, slope = jax.jvp(
            lambda x: convolve(jnp.tanh(convolve(x, weight)), weight), (x,), (r,)
        )
        return jnp.mean((output - x) ** 2 + r * slope)

    def train(weight):
        return jax.lax.scan(lambda w, _: (w - jax.grad(loss)(w), None), weight, None, length=3)

    program = jax.jit(train).lower(normal(*(3, 3)[:n_axes], 3, 3)).compile().as_text()
    axes = "01"[:n_axes]
    layouts = set(re.findall(r"dim_labels=(\w+->\w+)", program))
    assert layouts == {f"b{axes}f_{axes}io->b{axes}f"}


# Learning


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["1d", "2d"])
def test_denoising_is_learned(kind):
    # Bumps at places that the network must find: predicting zero has loss 1.
    if kind == "1d":
        network = UNet1d(24, channels=(8, 8), embedding_size=8, key=KEY)
        centre = jax.random.uniform(KEY, (64, 1), minval=4, maxval=20)
        distance = jnp.arange(24) - centre
    else:
        network = UNet2d(64, height=8, width=8, channels=(8, 8), embedding_size=8, key=KEY)
        centre = jax.random.uniform(KEY, (64, 2, 1), minval=1, maxval=7)
        row, column = jnp.divmod(jnp.arange(64), 8)
        distance = jnp.hypot(row - centre[:, 0], column - centre[:, 1])
    data = jnp.exp(-0.5 * (distance / 2) ** 2)
    data = (data - data.mean()) / data.std()
    optimiser = optax.adam(5e-3)
    weights, static = eqx.partition(network, eqx.is_array)

    def loss(weights, key):
        level_key, noise_key = jax.random.split(key)
        step = jax.random.randint(level_key, (64,), 1, 101)
        signal = jnp.cos(0.5 * jnp.pi * step / 101)[:, None]
        noise = jnp.sqrt(1 - signal**2) * jax.random.normal(noise_key, data.shape)
        estimate = jax.vmap(eqx.combine(weights, static))(signal * data + noise, step)
        return jnp.mean((estimate - data) ** 2)

    def body(carry, key):
        weights, moments = carry
        value, gradient = jax.value_and_grad(loss)(weights, key)
        updates, moments = optimiser.update(gradient, moments)
        return (optax.apply_updates(weights, updates), moments), value

    _, losses = jax.jit(lambda carry, keys: jax.lax.scan(body, carry, keys))(
        (weights, optimiser.init(weights)), jax.random.split(KEY, 60)
    )
    assert losses[0] > 0.7
    assert losses[-10:].mean() < 0.4


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_evaluating_is_the_same_as_calling(name):
    """Networks may have a second form that is faster to evaluate; it must not be another one."""
    sizes = {"unet-2d": {"height": 3, "width": 4, "channels": [8, 8]}, "unet-1d": {"channels": [8]}}
    network = build_denoiser(name, 12, **sizes.get(name, {})).network
    x = jax.random.normal(jax.random.key(0), (5, 12))
    steps = jnp.array([1, 20, 50, 99, 100])
    called = apply_batch(network, x, steps)
    np.testing.assert_allclose(evaluate_batch(network, x, steps), called, atol=1e-5)
    alone = eqx.filter_jit(network.evaluate)(x[1], steps[1])
    np.testing.assert_allclose(alone, called[1], atol=1e-5)


def test_evaluating_a_batch_keeps_its_axis_last():
    """Else it is as slow as a call, but no error: one operation too many moves it to the front."""
    network = build_denoiser("residual-conv", 12).network
    program = jax.make_jaxpr(jax.vmap(lambda x: network.evaluate(x, STEP)))(normal(5, 12))
    assert "permutation=(2, 0, 1)" not in str(program)


# Folds and bfloat16


@pytest.mark.slow
def test_folding_makes_two_by_two_pixels_one_position():
    """Every output depends on every input, at any size, with fewer positions in between."""
    network = small_2d(6, 4, folds=1)
    output = apply(network, normal(24))
    assert output.shape == (24,)
    jacobian = jax.jit(jax.jacobian(lambda x: network(x, STEP)))(normal(24))
    assert (jnp.abs(jacobian).sum(0) > 0).all()
    assert (jnp.abs(jacobian).sum(1) > 0).all()
    odd = small_2d(7, 5, folds=1)
    assert apply(odd, normal(35)).shape == (35,)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_bfloat16_is_the_same_network_with_rounding(name):
    sizes = {
        "unet-2d": {"height": 4, "width": 4, "channels": (8, 8)},
        "unet-1d": {"channels": (8, 8)},
    }
    options = sizes.get(name, {})
    exact = build_denoiser(name, 16, **options)
    rounded = build_denoiser(name, 16, compute="bfloat16", **options)
    level = jax.tree.map(jnp.asarray, Schedule.linear().level(30))
    a, b = apply(exact, normal(16), level), apply(rounded, normal(16), level)
    assert b.dtype == jnp.float32
    # Eight bits of mantissa, and some ten layers whose roundings add up at random.
    assert jnp.abs(a - b).max() < 10 * 2**-8 * jnp.abs(a).max()
    assert jnp.abs(a - b).max() > 0
    with pytest.raises(InvalidInputError, match="compute"):
        build_denoiser(name, 16, compute="float8", **options)
