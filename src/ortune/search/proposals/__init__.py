"""Changes to try: changes of one setting (``settings``), weighted by ``priors``, and the plans from them (``plans``).

After the screening, ``search/refine.py`` combines the plans that helped, and tries the ``neighbours`` of their numbers.
"""
