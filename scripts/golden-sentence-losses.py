#!/usr/bin/env python3
"""Writes tests/golden/sentence_losses.txt: losses of sentence-transformers and their gradients, in float64.

    scripts/golden-sentence-losses.py [FILE]        needs torch and sentence-transformers

The format is in tests/golden/README.md. Each case has its own seed, so that a new case changes no other.
"""

import sentence_transformers
from sentence_transformers.sentence_transformer import losses

import golden


def of_vectors(loss, vectors, labels=None):
    """Returns what a loss gives for vectors; it needs no model for that."""
    return loss.compute_loss_from_embeddings(list(vectors), labels)


def ranking(out):
    for label, B, negatives, D, scale in [
        ("pairs", 5, 0, 7, 20.0),
        ("one_pair", 1, 0, 3, 20.0),
        ("triplets", 4, 1, 9, 20.0),
        ("several_negatives", 3, 2, 33, 20.0),
        ("low_scale", 6, 0, 4, 2.0),
    ]:
        out.case("multiple_negatives_ranking_loss", label, temperature=1 / scale)
        loss = losses.MultipleNegativesRankingLoss(None, scale=scale)
        out.gradients(
            lambda anchors, candidates: of_vectors(loss, [anchors, *candidates.split(B)]),
            {"anchors": out.values(B, D), "candidates": out.values((1 + negatives) * B, D)},
        )


def triplets(out):
    metrics = {
        "euclidean": losses.TripletDistanceMetric.EUCLIDEAN,
        "cosine": losses.TripletDistanceMetric.COSINE,
    }
    for label, distance, B, D, margin in [
        ("default", "euclidean", 5, 7, 5.0),
        ("some_beyond_the_margin", "euclidean", 9, 3, 0.5),
        ("one", "euclidean", 1, 33, 1.0),
        ("cosine", "cosine", 6, 5, 0.5),
        ("cosine_without_margin", "cosine", 8, 4, 0.0),
    ]:
        out.case("triplet_loss", label, distance=distance, margin=margin)
        loss = losses.TripletLoss(None, metrics[distance], margin)
        roles = ["anchors", "positives", "negatives"]
        out.gradients(lambda **x: of_vectors(loss, x.values()), {role: out.values(B, D) for role in roles})

    out.case("triplet_loss", "equal_vectors", distance="euclidean", margin=5.0)
    anchors, negatives = out.values(3, 4), out.values(3, 4)
    loss = losses.TripletLoss(None)
    out.gradients(
        lambda anchors, positives, negatives: of_vectors(loss, [anchors, positives, negatives]),
        {"anchors": anchors, "positives": anchors.clone(), "negatives": negatives},
    )


def cosines(out):
    for label, B, D in [("rows", 5, 7), ("one", 1, 2), ("wide", 3, 33)]:
        out.case("cosine_similarity_loss", label)
        loss = losses.CosineSimilarityLoss(None)
        out.gradients(
            lambda a, b, scores: of_vectors(loss, [a, b], scores),
            {"a": out.values(B, D), "b": out.values(B, D)},
            {"scores": out.values(B, low=-64, high=64)},
        )


def main():
    out = golden.Golden()
    for write in (ranking, triplets, cosines):
        write(out)
    version = sentence_transformers.__version__
    golden.write(out, "sentence_losses.txt", f"golden-sentence-losses.py (sentence-transformers {version})")


if __name__ == "__main__":
    main()
