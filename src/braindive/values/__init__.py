"""The measurements themselves: the products that the model needs of them, wherever they lie.

`protocol` says what the model may ask for; `arithmetic` is what is done with one block of vertices;
`products` makes every product out of that; `local` and `distributed` run it where the values are.
"""
