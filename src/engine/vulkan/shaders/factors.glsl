// What is left of a total once it is multiplied by its matrix' factor. Included by matmul.glsl and matmul_tiled.glsl.
float with_factor(float total, uint expert) {
#ifdef HELIX_FACTORS
    precise const float product = total * params.factors.v[expert];
    return product;
#else
    return total;
#endif
}
