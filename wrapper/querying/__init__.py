"""Answers to vector queries: the planner, and the vectors held in memory."""
