"""AOTInductor: the generated code of a model, what its checks and printers say, and the guide that uses both."""
