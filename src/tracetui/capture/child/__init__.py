"""The capture child: run by path in the user's environment, importing torch and the standard library only.

It is started as `python .../capture/child` and needs no installed tracetui there; see `__main__.py`. Written
for Python 3.9 up, because a user's torch may run on an older Python than tracetui does.
"""
