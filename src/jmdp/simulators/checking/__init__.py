"""Is a simulator what it has to be?"""
