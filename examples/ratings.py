"""Ratings of movies as a log of decisions: a user is a task, a movie is an arm.

python examples/ratings.py --out ratings [--users 400]

Makes ratings up, as MovieLens has them: tastes in a few directions, movies that many have seen and
movies that few have, stars in halves. Writes log.csv, and truth.csv: what 40 new users think of
every movie. For ratings of your own, a csv with user, movie and rating is all that is needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MOVIES = [
    "Alien",
    "Amélie",
    "Brazil",
    "Casablanca",
    "Das Boot",
    "Fargo",
    "Gravity",
    "Heat",
    "Ikiru",
    "Jaws",
    "Kes",
    "M",
    "Metropolis",
    "Notorious",
    "Oldboy",
    "Paprika",
    "Persona",
    "Playtime",
    "Ran",
    "Rocky",
    "Solaris",
    "Stalker",
    "Suspiria",
    "Up",
]
NEW_USERS = 40


def stars(liking: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half stars, from a half to five."""
    return np.clip(np.round(2 * liking) / 2, 0.5, 5.0)


def make(users: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The ratings of past users, in rows, and the liking of new ones, (user, movie)."""
    rng = np.random.default_rng(seed)
    n_movies, everyone = len(MOVIES), users + NEW_USERS
    quality = rng.normal(3.3, 0.4, n_movies)
    taste = rng.normal(size=(everyone, 3)) @ rng.normal(0, 0.45, (3, n_movies))
    liking = quality + rng.normal(0, 0.3, (everyone, 1)) + taste
    seen_by = 1 / np.sqrt(1 + np.arange(n_movies))  # few movies are seen by many
    liked = np.exp(0.5 * (liking - 3.3))  # and people choose what they like
    chance = np.clip(0.9 * rng.permutation(seen_by) * liked, 0.03, 0.9)
    rated = rng.random(liking.shape) < chance
    rating = stars(liking + rng.normal(0, 0.5, liking.shape))
    user, movie = np.nonzero(rated[:users])
    log = pd.DataFrame(
        {
            "user": [f"user {number}" for number in user],
            "movie": np.array(MOVIES)[movie],
            "rating": rating[user, movie],
        }
    )
    names = [f"new user {number}" for number in range(NEW_USERS)]
    return log, pd.DataFrame(liking[users:], names, MOVIES)


def main() -> None:
    """Write log.csv and truth.csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--users", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    log, truth = make(options.users, options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    log.to_csv(options.out / "log.csv", index=False)
    truth.to_csv(options.out / "truth.csv", index_label="user")
    print(f"{len(log)} ratings, {log.user.nunique()} users, {log.movie.nunique()} movies")


if __name__ == "__main__":
    main()
