"""How diverse a data set is: Vendi scores of embeddings, what boxes, masks and keypoints are like, counts of groups."""
