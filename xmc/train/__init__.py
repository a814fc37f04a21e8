"""Training: the trained tower and the label prototypes, by gradient descent on tagged documents."""
