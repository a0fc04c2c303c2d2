"""A study file that commands are tried on."""

STUDY = """
kind: pool
name: Four hospitals
schema:
  version: 1
  columns:
    - {name: age, kind: integer, low: 0, high: 120, source: public, reason: people}
    - {name: height, kind: numeric, low: 100, high: 250, source: public, reason: people}
    - {name: ill, kind: categorical, role: label, categories: ["no", "yes"], source: public, reason: the question}
mechanism: {name: additive-noise}
guarantee: {epsilon_record: 6.0}
classifiers: [naive-bayes]
"""
