"""Lists that tests take their cases from. What is added to a list is tested by all of them."""
