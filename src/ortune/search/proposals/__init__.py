"""What to try: changes of one setting (``settings``), weighed by ``priors``, and the plans made of them (``plans``).

After the screening ``search/refine.py`` combines the plans that helped, and tries the ``neighbours`` of their numbers.
"""
