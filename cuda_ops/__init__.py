"""The operators: schema, reference, C and CUDA kernels. Imports torch and the standard library only."""
