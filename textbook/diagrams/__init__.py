"""Schematic drawings of the chapters: cells, encoders, products of matrices.

Each function takes the axes first, as those of ``textbook.plot`` do. They stand here and not in the
chapters since nobody learns attention from arrow styles.
"""
