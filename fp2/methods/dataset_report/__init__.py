"""The data set report: counts, boxes, masks and keypoints, and Vendi scores of embeddings."""
