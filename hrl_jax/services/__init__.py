"""What answers from outside the policy: graders, and their checkers."""
