"""`POST /api/search`: several oracles are asked at once and their answers are fused."""
