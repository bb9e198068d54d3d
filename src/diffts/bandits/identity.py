"""What a policy is, in a few plain words and hashes: which prior, which noise level, which sampler.

A saved state is worth something only under the policy that made it; this is how to tell.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import equinox as eqx
import numpy as np

from diffts.bandits.noise import FixedNoise
from diffts.bandits.policy import Policy

#: Follow from other parts, by a factorisation that is another one on another machine.
_DERIVED = ("prior_roots", "finest")


def identity(policy: Policy) -> dict[str, str]:
    """Kinds of belief and rule, and a word for each of their parts: the value, or a hash of it.

    >>> from diffts.bandits.policies import UCB1
    >>> parts = identity(UCB1(3, noise=0.5))
    >>> parts["belief"], parts["belief.noise_std"], parts["rule"], parts["rule.index"]
    ('EmpiricalBelief', '0.5', 'UCBRule', 'paper')
    """
    halves: dict[str, eqx.Module] = {"belief": policy.belief, "rule": policy.rule}
    words = {name: type(half).__name__ for name, half in halves.items()}
    for name, half in halves.items():
        for field in dataclasses.fields(half):
            if field.name not in _DERIVED:
                words[f"{name}.{field.name}"] = _word(_plain(getattr(half, field.name)))
    # A number is written as one: so it was when noise could be nothing else.
    noise = policy.belief.noise
    described = words.pop("belief.noise")
    words["belief.noise_std"] = (
        _word(float(noise.level)) if isinstance(noise, FixedNoise) else described
    )
    if policy.floor is not None:
        words["floor"] = _word(float(policy.floor))
    return words


def what_differs(saved: Any, here: dict[str, str]) -> str:
    """Which parts of a policy are not those that were saved, in words; '' if all are."""
    if not isinstance(saved, dict):
        return "which one was not written down"
    if "belief" not in saved:
        return "as an older diffts wrote it down"
    names = [*here, *(name for name in saved if name not in here)]
    return ", ".join(
        f"{name}: {saved.get(name, 'none')}, here {here.get(name, 'none')}"
        for name in names
        if saved.get(name) != here.get(name)
    )


def _plain(value: Any) -> Any:
    """A policy's part as plain JSON; of arrays their hash."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if eqx.is_array(value) or isinstance(value, np.ndarray):
        array = np.asarray(value)
        if array.ndim == 0:
            return array.item()
        digest = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()
    if isinstance(value, str | int | float | bool | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)  # no memory addresses


def _word(plain: Any) -> str:
    """A short value as it is, a longer one as twelve letters of its hash."""
    text = plain if isinstance(plain, str) else json.dumps(plain, sort_keys=True)
    if isinstance(plain, float):
        text = f"{plain:.6g}"
    if len(text) <= 60:
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:12]
