"""What a person looks at: curves of training runs, later pages and traces."""
