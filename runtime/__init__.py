"""Graph, operators, plan and interpreter: everything both ways of running share."""
