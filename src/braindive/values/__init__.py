"""The measurements themselves: the products that the model needs of them, wherever they lie."""
