"""Changes to try: changes of one setting (``settings``), weighted by ``priors``, and the resulting plans (``plans``).

After the screening, ``search/refine.py`` combines the plans that helped, and tries ``neighbours`` of numeric settings.
"""
