"""Predictors: HPL on nodes with accelerators, data-parallel training, and a measured study under other conditions.

Nothing here measures: values go in, values and tables come out, and every result names its variant or cost model.
Entry points:

* HPL (Hu and Lu 2021, doi 10.1007/s11227-021-03829-x): :func:`hpcai.predict.hpl.simulate.simulate` of a
  :class:`hpcai.predict.hpl.scenario.Scenario`, whose numbers may be arrays; the inverse questions are in
  :mod:`hpcai.predict.hpl.inverse`.
* Training (Barrachina et al. 2023, doi 10.1007/s00607-021-00997-9): :func:`hpcai.predict.training.step.predict_step` of
  a list of layers (:func:`hpcai.predict.training.networks.build_network`) on a
  :class:`hpcai.predict.training.step.Scenario`.
* Kernels: :func:`hpcai.predict.kernels.fit.fit_kernels` of measured times, then
  :func:`hpcai.predict.kernels.step_estimate.estimate_step`.
* A measured study under other conditions: :func:`hpcai.predict.what_if.predict_study`.

The command line is ``hpcai predict hpl`` and ``hpcai predict training``.
"""
