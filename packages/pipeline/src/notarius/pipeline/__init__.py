"""The notarius application: candidate files in, registries out."""
